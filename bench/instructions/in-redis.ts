/** Instructions that Redis spends on a decision, its commands, and the bytes it keeps: none depends on the machine's load. */
import { readCounts, resetCounts } from '../command-counts.ts'
import { createIdentitySubjects } from '../identities/subjects.ts'
import { connectPeers } from '../peers.ts'
import { createLimits, measureBytes } from '../redis/measure.ts'
import { COUNTED, createSubjects, type Subject } from '../redis/subjects.ts'
import { startFront } from '../services.ts'
import { TOKEN } from '../site.ts'
import type { UnderCallgrind } from './callgrind.ts'
import { startCountedRedis } from './counted-redis.ts'

const DECISIONS = 200
/** These are not counted: the first call compiles a script. */
const WARM_UPS = 10
/** Admissions in the window of a caller that is not new. */
const ENTRIES = 1_000

/** The costs of a decision. */
export interface DecisionCounts {
  readonly instructions: number
  /** Commands that Upstash bills. */
  readonly commands: number
  /** Memory of the caller, by MEMORY USAGE. */
  readonly bytes: number
}

export interface DecisionInstructions {
  readonly limiter: string
  readonly limits: number
  /** Number of policies of the decision, each of which counts by an identity of its own. */
  readonly identities?: number
  readonly newCaller: DecisionCounts
  /** A caller with 1,000 admissions in the window. */
  readonly hotCaller: DecisionCounts
}

export async function countInRedis(underCallgrind: UnderCallgrind): Promise<DecisionInstructions[]> {
  await using counted = await startCountedRedis(underCallgrind)
  const { redis, count } = counted
  const front = await startFront(counted.port, TOKEN, 0)
  const peers = await connectPeers({ redisPort: counted.port, restUrl: front.url, token: TOKEN })

  async function countDecision(subject: Subject, isNew: boolean, requests: number): Promise<DecisionCounts> {
    const callers = Array.from({ length: WARM_UPS + DECISIONS }, (_, index) => `${isNew ? 'new' : 'hot'}-${index}`)
    if (!isNew) {
      callers.fill('hot')
      await subject.fill('hot', ENTRIES)
    }
    const [first] = callers as [string]
    await subject.decide(first)
    const bytes = await measureBytes(redis, first)
    for (const caller of callers.splice(0, WARM_UPS)) await subject.decide(caller)
    await resetCounts(redis)
    const left = callers.toReversed()
    const instructions = await count(DECISIONS, () => subject.decide(left.pop() as string), requests)
    const { billed } = await readCounts(redis)
    await redis.flushAll()
    return { instructions, commands: billed / DECISIONS, bytes }
  }

  try {
    const rows: DecisionInstructions[] = []
    const countBoth = async (subject: Subject, requests: number) => ({
      limiter: subject.name,
      newCaller: await countDecision(subject, true, requests),
      hotCaller: await countDecision(subject, false, requests),
    })
    for (const limits of [1, 3]) {
      for (const subject of await createSubjects(redis, createLimits(limits), peers.contenders)) {
        if (COUNTED.includes(subject.name)) rows.push({ limits, ...(await countBoth(subject, 1)) })
      }
    }
    for (const subject of createIdentitySubjects(redis, peers.contenders, { url: front.url, token: TOKEN })) {
      const { identities, calls } = subject
      rows.push({ limits: 1, identities, ...(await countBoth(subject, calls)) })
    }
    return rows
  } finally {
    await peers.close()
    await front.stop()
  }
}
