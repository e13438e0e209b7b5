import { normalizeAuthorization } from '../../src/identity/authorization.ts'
import { createDigest } from '../../src/identity/digest.ts'
import { type Path, PLANTED } from './callers.ts'
import type { Site } from './site.ts'
import type { Sample } from './traffic.ts'

const COUNTED = ['local', 'open', 'closed'] satisfies Path[]

/**
 * Units that the store has charged beyond what it has told anybody: by each caller, what its stream says was ever
 * admitted, less the answers of which the store was the author.
 */
export async function unexplainedCharges({ redis, keyPrefix }: Site, samples: readonly Sample[]): Promise<number[]> {
  const digest = createDigest(PLANTED.identitySecret)
  const callers = Map.groupBy(
    samples.filter(({ path }) => (COUNTED as Path[]).includes(path)),
    ({ caller }) => caller,
  )
  return Promise.all(
    [...callers].map(async ([caller, own]) => {
      const identity = digest(['token', normalizeAuthorization(`Bearer ${caller}`) ?? ''])
      const newest = await redis.client.xRevRange(`${keyPrefix}:${own[0]?.path}:w:{${identity}}`, '+', '-', {
        COUNT: 1,
      })
      const charged = Number(newest?.[0]?.id.split('-')[1] ?? 0)
      return charged - own.filter(({ status, degraded }) => status === 200 && degraded === undefined).length
    }),
  )
}

/** Slots of a `concurrency` policy that are taken, by whomsoever. */
export async function slotsTaken({ redis, keyPrefix }: Site, policy: string): Promise<number> {
  const keys = await redis.client.keys(`${keyPrefix}:${policy}:c:*`)
  const taken = await Promise.all(keys.map((key) => redis.client.zCard(key)))
  return taken.reduce((sum, count) => sum + count, 0)
}
