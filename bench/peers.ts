import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Tier } from '../src/limit/rule.ts'
import { installLocked } from '../tools/install-locked.ts'

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

const FOLDER = fileURLToPath(import.meta.resolve('.'))

/** Installs the peers, unless they are as the lock says, and checks what is written for them. */
export function installPeers(): void {
  installLocked(FOLDER)
  execFileSync('tsc', ['-p', FOLDER], { stdio: 'inherit' })
}

/** Connects the peers that are installed. */
export async function connectPeers(options: PeerOptions): Promise<Peers> {
  // Computed, so that the rest of the bench can be checked without them.
  const module = import.meta.resolve('./peers/contenders.ts')
  const peers: { connect(options: PeerOptions): Promise<Peers> } = await import(module)
  return peers.connect(options)
}
