/** Finds out which of several databases answer. */
import type { Circuit, StorePlaces } from '../../core/model/store.ts'

export interface ShardHealth {
  readonly reachable: boolean
  /** Null if it did not answer. */
  readonly rttMs: number | null
  readonly circuit: Circuit
}

/** @returns how the slowest answers, and how each does, by name */
export async function pingShards({ byName }: StorePlaces, now: () => number) {
  const startedAtMs = now()
  const pings = [...byName].map(async ([name, { ping, circuit }]): Promise<[string, ShardHealth]> => {
    const reachable = await ping().then(
      () => true,
      () => false,
    )
    return [name, { reachable, rttMs: reachable ? now() - startedAtMs : null, circuit }]
  })
  const shards = Object.fromEntries(await Promise.all(pings))
  const reachable = Object.values(shards).every((shard) => shard.reachable)
  return { reachable, rttMs: reachable ? now() - startedAtMs : null, shards }
}
