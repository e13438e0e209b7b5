/** The libraries that Sluice is compared with. */
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Limit } from '../src/core/model/limits.ts'
import { installLocked } from '../tools/install-locked.ts'

export const UPSTASH = '@upstash/ratelimit'
export const FLEXIBLE = 'rate-limiter-flexible'

/** Takes one unit for a caller; true if the limiter admits. */
export type TryTake = (caller: string) => Promise<boolean>

/** A limiter of another library. */
export interface Contender {
  readonly name: string
  /** What enforces these limits in this library: one limiter for each if it knows no other way. */
  make(limits: readonly Limit[]): TryTake
}

/** Calls tasks no sooner than a limit lets it. */
export interface Throttle {
  readonly name: string
  make(limit: Limit): (task: () => unknown) => Promise<unknown>
}

/** Libraries that limit within one process. */
export interface InProcess {
  readonly inMemory: readonly Contender[]
  readonly throttles: readonly Throttle[]
}

export interface PeerOptions {
  readonly redisPort: number
  readonly restUrl: string
  readonly token: string
}

export interface Peers {
  readonly contenders: readonly Contender[]
  /** The same over TCP, so that Redis takes as long for each call. */
  readonly overTcp: readonly Contender[]
  close(): Promise<void>
}

const FOLDER = fileURLToPath(import.meta.resolve('.'))

/** Installs the peers, unless they are as the lock says, and checks what is written for them. */
export function installPeers(): void {
  installLocked(FOLDER)
  execFileSync('tsc', ['-p', FOLDER], { stdio: 'inherit' })
}

/** Loads the peers that need no Redis. */
export async function loadInProcess(): Promise<InProcess> {
  const module = import.meta.resolve('./peers/in-process.ts')
  return import(module)
}

/** Connects the peers that are installed. */
export async function connectPeers(options: PeerOptions): Promise<Peers> {
  // Computed, so that the rest of the bench can be checked without them.
  const module = import.meta.resolve('./peers/contenders.ts')
  const peers: { connect(options: PeerOptions): Promise<Peers> } = await import(module)
  return peers.connect(options)
}
