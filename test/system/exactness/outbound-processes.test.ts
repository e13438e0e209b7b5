/** The calling side in four processes on one Redis, against a real server. */
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { expect, inject, test } from 'vitest'
import type { Limit } from '../../../src/core/model/limits.ts'
import { LimitedServer } from '../../support/limited-server.ts'
import type { Outcome, ProcessOptions } from '../../support/outbound-process.ts'
import { shareRedis } from '../../support/own-redis.ts'
import { startUpstream } from '../../support/upstream.ts'
import { expectNoWindowOver } from '../../support/windows.ts'
import { readAdmissions } from '../kit/streams.ts'

const PROCESSES = 4

const redis = shareRedis()

/** Starts the processes, lets them go at once, and waits for what became of their calls. */
async function run(options: Omit<ProcessOptions, 'redisPort'>): Promise<Outcome[]> {
  const children = Array.from({ length: PROCESSES }, () => {
    const script = new URL('../../support/outbound-process.ts', import.meta.url).pathname
    const argument = JSON.stringify({ ...options, redisPort: inject('redisPort') } satisfies ProcessOptions)
    return spawn(process.execPath, [script, argument], { stdio: ['pipe', 'pipe', 'inherit'] })
  })
  try {
    const outputs = children.map((child) => createInterface(child.stdout)[Symbol.asyncIterator]())
    await Promise.all(outputs.map((lines) => lines.next()))
    for (const child of children) child.stdin.write('go\n')
    const printed = await Promise.all(outputs.map((lines) => lines.next()))
    return printed.flatMap(({ value }) => JSON.parse(value ?? 'null') as Outcome[])
  } finally {
    for (const child of children) {
      if (child.exitCode === null && child.kill()) await once(child, 'exit')
    }
  }
}

test.concurrent('four processes that know only what a server reports make all their calls, and it refuses the fewer of them', async () => {
  const server = new LimitedServer(
    [
      { name: 'burst', limit: 20, windowMs: 1_000, kind: 'sliding' },
      { name: 'sustained', limit: 45, windowMs: 3_000, kind: 'fixed', offsetMs: 400 },
    ],
    'draft-11',
  )
  const upstream = await startUpstream((_, response) => {
    const { status, headers } = server.answer(performance.timeOrigin + performance.now())
    response.writeHead(status, headers).end()
  })
  const calls = 15
  const options = { apiUrl: upstream.url, prefix: randomUUID(), calls, attempts: 20 }
  const statuses = await run(options).finally(upstream.stop)
  expect(statuses).toEqual(Array.from({ length: PROCESSES * calls }, () => 200))
  expect(server.refused).toBeLessThan((PROCESSES * calls) / 2)
  expect(server.admittedMs).toHaveLength(PROCESSES * calls)
})

test.concurrent('a partner’s budget of five limits is used to the last unit, and never exceeded', async () => {
  // Each allows less than the one before it does, and all of them act within seconds.
  const limits: Limit[] = [
    { limit: 20, windowMs: 150 },
    { limit: 50, windowMs: 450 },
    { limit: 90, windowMs: 900 },
    { limit: 130, windowMs: 1_500 },
    { limit: 150, windowMs: 600_000 },
  ]
  const budget = 150
  const prefix = randomUUID()
  const text = limits.map(({ limit, windowMs }) => `${limit}/${windowMs}ms`).join(', ')
  let arrived = 0
  const upstream = await startUpstream((_, response) => {
    arrived++
    response.writeHead(200).end()
  })
  const calls = 50
  // For what is over the budget, the longest window would have to end.
  const options = { apiUrl: upstream.url, prefix, calls, limits: text, maxWaitMs: 300_000 }
  const outcomes = await run(options).finally(upstream.stop)

  const count = (outcome: Outcome) => outcomes.filter((other) => other === outcome).length
  expect([count(200), count('WAIT_TOO_LONG'), arrived]).toEqual([budget, PROCESSES * calls - budget, budget])
  // The record is Redis's own.
  const [key = ''] = await redis.keys(`${prefix}:default:w:*`)
  const admitted = await readAdmissions((command) => redis.sendCommand([...command]), key)
  expect(admitted).toHaveLength(budget)
  for (const { limit, windowMs } of limits) expectNoWindowOver(limit, windowMs, admitted)
})
