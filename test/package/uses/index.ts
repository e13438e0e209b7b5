import { concurrency, createLimiter, type Decision, memoryStore, slidingWindow } from 'sluice'

/** Whether each of four calls is granted: a limiter has one slot, and admits two a minute. */
export async function use(): Promise<readonly boolean[]> {
  const limiter = createLimiter({
    store: memoryStore({ maxKeys: 1_000 }),
    policies: [
      { name: 'calls', ...slidingWindow('2/1m') },
      { name: 'jobs', ...concurrency(1) },
    ],
  })
  const first = await limiter.hold('somebody')
  const second: Decision = await limiter.hold('somebody')
  await first.release()
  const third = await limiter.hold('somebody')
  await third.release()
  const fourth = await limiter.hold('somebody')
  return [first, second, third, fourth].map(({ granted }) => granted)
}
