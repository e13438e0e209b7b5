import { concurrency, createLimiter, quota, redisStore, slidingWindow } from 'sluice'

/** A client of nothing, in the shape of one of `@redis/client`. */
const unavailable = () => Promise.reject(new Error('unavailable'))
const client = { evalSha: unavailable, eval: unavailable, zRem: unavailable, del: unavailable, ping: unavailable }

/** Tests two requests of which the limit grants one, a quota, and an unavailable Redis. */
export async function use(): Promise<readonly unknown[]> {
  const limiter = createLimiter({ policies: [{ name: 'calls', ...slidingWindow('1/1m') }] })
  const taken = [await limiter.take('alice'), await limiter.take('alice')]
  const { granted } = await createLimiter({ policies: [{ name: 'day', ...quota('2/1d') }] }).takeUpTo('alice', 5)
  const jobs = createLimiter({
    store: redisStore(client),
    policies: [{ name: 'jobs', ...concurrency(1) }],
    log: () => {},
  })
  const slot = await jobs.hold('alice')
  await slot.release()
  return [...taken.map((decision) => decision.granted), granted, slot.degraded]
}
