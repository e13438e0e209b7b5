import { execFileSync } from 'node:child_process'
import { statSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
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

const FOLDER = fileURLToPath(import.meta.resolve('.'))

/** Installs the peers, unless they are as the lock says, and checks what is written for them. */
export function installPeers(): void {
  if (timeOf('node_modules/.package-lock.json') < timeOf('package-lock.json')) {
    console.error('Installing the peers …')
    execFileSync('npm', ['ci', '--prefix', FOLDER, '--no-audit', '--no-fund', '--loglevel=error'], { stdio: 'inherit' })
  }
  execFileSync('tsc', ['-p', FOLDER], { stdio: 'inherit' })
}

/** Connects the peers that are installed. */
export async function connectPeers(options: PeerOptions): Promise<Peers> {
  // Computed, so that the rest of the bench can be checked without them.
  const module = import.meta.resolve('./peers/contenders.ts')
  const peers: { connect(options: PeerOptions): Promise<Peers> } = await import(module)
  return peers.connect(options)
}

function timeOf(file: string): number {
  return statSync(`${FOLDER}/${file}`, { throwIfNoEntry: false })?.mtimeMs ?? 0
}
