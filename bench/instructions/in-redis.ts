import { mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connectRedis } from '../../test/support/redis-client.ts'
import { findRedisServer } from '../../tools/find-redis-server.ts'
import { startRedisServer } from '../../tools/redis-server.ts'
import { makeIdentitySubjects } from '../identities/subjects.ts'
import { connectPeers } from '../peers.ts'
import { limitsOf } from '../redis/measure.ts'
import { makeSubjects, SUMMED_STREAM, type Subject } from '../redis/subjects.ts'
import { startFront } from '../services.ts'
import type { Counted } from './callgrind.ts'

const TOKEN = 'bench-token'
const DECISIONS = 200
/** Not counted: a script is compiled by its first call. */
const WARM_UPS = 10
/** Admissions in the window of a caller that is not new. */
const ENTRIES = 1_000

export type DecisionInstructions = {
  readonly limiter: string
  readonly limits: number
  /** Each has these limits. */
  readonly identities: number
  readonly 'new caller': number
  readonly 'hot caller': number
}

/**
 * What Redis spends on a decision. What a PING takes is subtracted for each call, so that reading it from the socket and
 * answering is not counted.
 */
export async function countInRedis(
  underCallgrind: (executable: string) => Promise<Counted>,
): Promise<DecisionInstructions[]> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-redis-'))
  // Debian's package has the server under a name by which it would check a file.
  const executable = join(folder, 'redis-server')
  await symlink(await findRedisServer(), executable)
  await using counted = await underCallgrind(executable)
  const server = await startRedisServer({ binary: counted.file, args: ['--hz', '1'] })
  const redis = await connectRedis(server.port)
  const front = await startFront(server.port, TOKEN, 0)
  const peers = await connectPeers({ redisPort: server.port, restUrl: front.url, token: TOKEN })

  async function count(call: () => Promise<unknown>): Promise<number> {
    const total = await counted.count(
      server.pid,
      () => redis.ping(),
      async () => {
        for (let i = 0; i < DECISIONS; i++) await call()
      },
    )
    return total / DECISIONS
  }

  async function countDecision(subject: Subject, isNew: boolean): Promise<number> {
    const callers = Array.from({ length: WARM_UPS + DECISIONS }, (_, index) => `${isNew ? 'new' : 'hot'}-${index}`)
    if (!isNew) {
      callers.fill('hot')
      await subject.fill('hot', ENTRIES)
    }
    for (const caller of callers.splice(0, WARM_UPS)) await subject.decide(caller)
    const instructions = await count(() => subject.decide(callers.pop() as string))
    await redis.flushAll()
    return instructions
  }

  try {
    const pingInstructions = await count(() => redis.ping())
    const rows: DecisionInstructions[] = []
    const addRow = async (subject: Subject, limits: number, identities: number, calls: number) => {
      const [newCaller, hotCaller] = [await countDecision(subject, true), await countDecision(subject, false)]
      rows.push({
        ...{ limiter: subject.name, limits, identities },
        'new caller': Math.round(newCaller - calls * pingInstructions),
        'hot caller': Math.round(hotCaller - calls * pingInstructions),
      })
    }
    for (const limits of [1, 3]) {
      for (const subject of await makeSubjects(redis, limitsOf(limits), peers.contenders)) {
        if (subject.name !== SUMMED_STREAM) await addRow(subject, limits, 1, 1)
      }
    }
    for (const subject of makeIdentitySubjects(redis, peers.contenders, { url: front.url, token: TOKEN }))
      await addRow(subject, 1, subject.identities, subject.calls)
    return rows
  } finally {
    await peers.close()
    await redis.close()
    await front.stop()
    await server.stop()
    await rm(folder, { recursive: true })
  }
}
