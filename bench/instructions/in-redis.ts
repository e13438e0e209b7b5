/** Instructions that Redis spends on a decision. */
import { createIdentitySubjects } from '../identities/subjects.ts'
import { connectPeers } from '../peers.ts'
import { createLimits } from '../redis/measure.ts'
/** Instructions that Redis spends on a decision. */
import { createSubjects, SUMMED_STREAM, type Subject } from '../redis/subjects.ts'
import { startFront } from '../services.ts'
import { TOKEN } from '../site.ts'
import type { UnderCallgrind } from './callgrind.ts'
import { startCountedRedis } from './counted-redis.ts'

const DECISIONS = 200
/** These are not counted: the first call compiles a script. */
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

export async function countInRedis(underCallgrind: UnderCallgrind): Promise<DecisionInstructions[]> {
  await using counted = await startCountedRedis(underCallgrind)
  const { redis, count } = counted
  const front = await startFront(counted.port, TOKEN, 0)
  const peers = await connectPeers({ redisPort: counted.port, restUrl: front.url, token: TOKEN })

  async function countDecision(subject: Subject, isNew: boolean, requests: number): Promise<number> {
    const callers = Array.from({ length: WARM_UPS + DECISIONS }, (_, index) => `${isNew ? 'new' : 'hot'}-${index}`)
    if (!isNew) {
      callers.fill('hot')
      await subject.fill('hot', ENTRIES)
    }
    for (const caller of callers.splice(0, WARM_UPS)) await subject.decide(caller)
    const instructions = await count(DECISIONS, () => subject.decide(callers.pop() as string), requests)
    await redis.flushAll()
    return instructions
  }

  try {
    const rows: DecisionInstructions[] = []
    const addRow = async (subject: Subject, limits: number, identities: number, requests: number) => {
      const newCaller = await countDecision(subject, true, requests)
      const hotCaller = await countDecision(subject, false, requests)
      rows.push({
        ...{ limiter: subject.name, limits, identities },
        'new caller': Math.round(newCaller),
        'hot caller': Math.round(hotCaller),
      })
    }
    for (const limits of [1, 3]) {
      for (const subject of await createSubjects(redis, createLimits(limits), peers.contenders)) {
        if (subject.name !== SUMMED_STREAM) await addRow(subject, limits, 1, 1)
      }
    }
    for (const subject of createIdentitySubjects(redis, peers.contenders, { url: front.url, token: TOKEN }))
      await addRow(subject, 1, subject.identities, subject.calls)
    return rows
  } finally {
    await peers.close()
    await front.stop()
  }
}
