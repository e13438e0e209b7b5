import type { RedisClient } from '../command-counts.ts'
import type { Admission } from './windows.ts'

export interface RedisLog {
  /** Admissions of keys with this prefix so far, by Redis's own clock. */
  admissions(prefix: string): Admission[]
  stop(): void
}

/** Watches Redis for entries of streams: in plain sliding windows, each is an admission, and its ID tells when. */
export async function watchRedis(redis: RedisClient): Promise<RedisLog> {
  const entries: { key: string; ms: number }[] = []
  const watcher = await redis.duplicate().connect()
  await watcher.monitor((line) => {
    const [, key, ms] = / lua\] "XADD" "([^"]+)" .*"(\d+)-\d+" "\d+" "1"$/.exec(String(line)) ?? []
    if (key && ms) entries.push({ key, ms: Number(ms) })
  })
  return {
    admissions: (prefix) =>
      entries.filter(({ key }) => key.startsWith(`${prefix}:`)).map(({ ms }) => ({ earliestMs: ms, latestMs: ms })),
    stop: () => watcher.destroy(),
  }
}
