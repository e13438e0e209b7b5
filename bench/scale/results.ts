/** The results of `npm run bench:scale`. */
import type { ScaleFigures } from './simulate.ts'

export interface ScaleResults {
  readonly machine: {
    readonly date: string
    readonly processors: string
    readonly node: string
    /** Seconds of one processor that the run took. */
    readonly seconds: number
  }
  readonly seed: number
  readonly rows: readonly ScaleRow[]
  /** The same with the longest time that Cloudflare says it takes to make an object. */
  readonly lookingAround: readonly ScaleRow[]
  /** The same with the Worker next to Redis. */
  readonly nearRedis: readonly ScaleRow[]
  /** The same loads with fewer and more isolates. */
  readonly byIsolates: readonly ScaleRow[]
  /** The same with several databases. */
  readonly byShards: readonly ScaleRow[]
  /** The same load, all of it simulated, and one in ten. */
  readonly scaledDown: readonly ScaleRow[]
}

/** A scenario and what came of it. */
export interface ScaleRow extends ScaleFigures {
  readonly policies: string
  readonly store: 'redis' | 'durable-object'
  readonly leases: 'off' | 'auto'
  readonly perSecond: number
  readonly oneIn: number
  /** Isolates of all the world. */
  readonly isolates: number
  /** Databases that share out identities. */
  readonly shards: number
  /** The cost of a million requests. */
  readonly dollars: number
}

/** A store that leaves more than this share of the requests undecided has too much to do. */
const FEW = 0.01

export function canKeepUp({ undecided, requests }: ScaleRow): boolean {
  return undecided <= FEW * requests
}

/** The same requests through the real thing, in real time, and through the simulation. */
export interface CrossCheckRow extends Pick<ScaleRow, 'store' | 'leases'> {
  /** Whether all share a limit besides their own. */
  readonly isShared: boolean
  readonly requests: number
  readonly real: CrossCheckCounts
  readonly simulated: CrossCheckCounts
}

export interface CrossCheckCounts {
  readonly admitted: number
  /** No store decided in time. */
  readonly undecided: number
  readonly calls: number
  /** Commands of Redis, or rows. */
  readonly written: number
}
