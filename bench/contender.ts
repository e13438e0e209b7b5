import type { Tier } from '../src/limit/rule.ts'

/** Asks a limiter for one unit for a caller; true if it admits. */
export type Limit = (caller: string) => Promise<boolean>

/** A limiter of another library. */
export interface Contender {
  readonly name: string
  /** What enforces these tiers in this library: one limiter for each if it knows no other way. */
  make(tiers: readonly Tier[]): Limit
}

export interface PeerOptions {
  readonly redisPort: number
  readonly restUrl: string
  readonly token: string
}

export interface Peers {
  readonly contenders: readonly Contender[]
  close(): Promise<void>
}

/** The peers, which are installed only where the bench has run. */
export async function connectPeers(options: PeerOptions): Promise<Peers> {
  // Computed, so that the rest of the bench can be checked without them.
  const module = import.meta.resolve('./peers/contenders.ts')
  const peers: { connect(options: PeerOptions): Promise<Peers> } = await import(module)
  return peers.connect(options)
}
