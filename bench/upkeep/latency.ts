import { setTimeout } from 'node:timers/promises'
import { connectRedis } from '../../test/support/redis-client.ts'

const EVERY_MS = 2

export interface Latency {
  readonly p99: number
  readonly most: number
}

/** Measures what another client waits for its PING, until stopped. */
export async function watchLatency(port: number): Promise<{ stop(): Promise<Latency> }> {
  const redis = await connectRedis(port)
  const seenMs: number[] = []
  let isOver = false
  const measured = (async () => {
    while (!isOver) {
      const sentAtMs = performance.now()
      await redis.ping()
      seenMs.push(performance.now() - sentAtMs)
      await setTimeout(EVERY_MS)
    }
  })()
  return {
    async stop() {
      isOver = true
      await measured
      await redis.close()
      const sorted = seenMs.toSorted((a, b) => a - b)
      return { p99: sorted[Math.floor(sorted.length * 0.99)] ?? 0, most: sorted.at(-1) ?? 0 }
    },
  }
}
