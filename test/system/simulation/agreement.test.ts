import { randomUUID } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import { expect, inject, test } from 'vitest'
import type { Settings } from '../../../src/command/settings/settings.ts'
import type { LogEntry } from '../../../src/command/simulate/log-line.ts'
import { type Fate, Simulation } from '../../../src/command/simulate/simulation.ts'
import { loadWorkerConfig } from '../../../src/command/worker-config.ts'
import { runInside } from '../../command/run-command.ts'
import { agree, type Decided } from '../../command/simulate/agree.ts'
import { share } from '../../support/share.ts'
import { startSite } from '../../support/site.ts'
import { type Decision, recordDecisions } from '../exactness/redis-record.ts'

const REQUESTS = process.env.FUZZ === 'long' ? 2_000 : 400
/** How far from a boundary a request may have been decided, to have another verdict than here. */
const TOLERANCE_MS = 5
const CALLERS = 6

const LIMITS = {
  RATE_LIMITS: '3/200ms, 30/1s',
  POLICIES: [
    { name: 'login', limits: '4/200ms', by: 'ip', match: ['POST /login'] },
    // However slowly a busy machine sends, these two have something to refuse.
    { name: 'things', limits: `${REQUESTS * 0.03}/1h`, match: ['GET /things'] },
    { name: 'tries', limits: '5/1h', match: ['POST /login'], mode: 'shadow' },
  ],
  EXEMPT: 'GET /free',
  ANONYMOUS: 'deny',
  KEY_PREFIX: randomUUID(),
}
const ROUTES = ['GET /things', 'GET /things?page=2', 'POST /login', 'POST //login/', 'GET /free'] as const

/** With a Redis of its own: all that it decides is recorded. */
const site = share(() => startSite({ bundle: inject('bundle'), points: 1, variables: LIMITS }))

interface Answered {
  readonly entry: LogEntry
  readonly receivedMs: number
  readonly fate: Fate
  /** Whether Redis was asked. */
  readonly wasRequested: boolean
}

/** Sends a request, and tells when. @param crowd callers of another one share nothing with these */
async function send(index: number, crowd = 0): Promise<Answered> {
  const [method = '', target = ''] = (ROUTES[index % ROUTES.length] ?? '').split(' ')
  const caller = (index * 7) % CALLERS
  // Some come without a token.
  const token = index % 31 === 0 ? undefined : `Bearer caller-${crowd}-${caller}`
  const ip = `198.18.${crowd}.${caller % 3}`
  const before = site.front.requests
  const timeMs = Date.now()
  const headers = { 'CF-Connecting-IP': ip, ...(token !== undefined && { Authorization: token }) }
  const response = await fetch(`${site.urls[0]?.origin}${target}`, { method, headers })
  await response.arrayBuffer()
  const entry = { timeMs, method, target, ip, token, headers: new Map<string, string>(), status: undefined }
  return { entry, receivedMs: Date.now(), fate: toFate(response.status), wasRequested: site.front.requests > before }
}

function toFate(status: number): Fate {
  return status === 200 ? 'admitted' : status === 429 ? 'refused' : 'rejected'
}

/** When it was decided: to the millisecond if it was admitted by Redis, and else within what is known. */
function findDecisionTime({ entry, receivedMs, fate }: Answered, decision: Decision | undefined): Decided {
  // What was refused without asking is refused from the moment that it came.
  if (!decision) return { entry, earliestMs: entry.timeMs, latestMs: receivedMs + 1, fate }
  const [first] = decision.entries
  // Entries are dated at the end of their millisecond, and the record by the beginning of its own.
  const [earliestMs, latestMs] = first ? [first.ms - 1, first.ms] : [decision.earliestMs, decision.latestMs + 1]
  return { entry: { ...entry, timeMs: latestMs - 0.5 }, earliestMs, latestMs, fate }
}

test(`${REQUESTS} requests have the verdicts of the production bundle, but for those within 5 ms of a boundary`, async () => {
  // Redis has the script then, and the Worker a connection.
  for (let i = 1; i <= ROUTES.length; i++) await send(i, 1)
  const decisions: Decision[] = []
  const recording = await recordDecisions(site.redis.port, (decision) => decisions.push(decision))
  const answered: Answered[] = []
  for (let i = 0; i < REQUESTS; i++) {
    answered.push(await send(i))
    // Bursts, and pauses of up to 12 ms.
    if (i % 3 === 0) await setTimeout((i * 5) % 13)
  }
  await recording.stop()
  expect(decisions.length).toBe(answered.filter(({ wasRequested }) => wasRequested).length)

  const config = loadWorkerConfig({ variables: LIMITS } as unknown as Settings)
  const queue = decisions.values()
  const decided = answered.map((each) => findDecisionTime(each, each.wasRequested ? queue.next().value : undefined))
  const { entries, moved } = await agree(config, decided, TOLERANCE_MS)
  // Were there more, a mistake could hide among them.
  expect(moved.filter(({ beyondMs }) => beyondMs > 0).length).toBeLessThanOrEqual(REQUESTS / 100)
  const simulation = new Simulation(config)
  for (const entry of entries) await simulation.replay(entry)
  const summary = simulation.summarize(false)
  expect(summary.admitted).toBeGreaterThan(0)
  expect(summary.rejected).toBeGreaterThan(0)
  expect(summary.refused).toBeGreaterThan(REQUESTS / 20)
  expect(summary.policies.find(({ policy }) => policy === 'tries')?.refused).toBeGreaterThan(0)

  // And the command says the same of the same log.
  const input = entries.map(({ headers: _, ...row }) => JSON.stringify(row)).join('\n')
  const { POLICIES, ...variables } = LIMITS
  const env = { ...variables, POLICIES: JSON.stringify(POLICIES) }
  const args = ['simulate', '-', '--json', '--fields', 'path=target,token=token,time=timeMs']
  const { stdout } = await runInside(args, { env, input })
  const { admitted, refused, rejected } = JSON.parse(stdout).results[0]
  expect(summary).toMatchObject({ admitted, refused, rejected })
})
