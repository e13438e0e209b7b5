/** Load by wrk, in a process of its own. */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
const SCRIPT = fileURLToPath(import.meta.resolve('./wrk.lua'))
const APT_INSTALL = 'apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=60 wrk'

export interface LoadOptions {
  readonly url: string
  /** Callers take turns at random, each with a token of its own that begins with `name`. */
  readonly name: string
  readonly callers: number
  readonly seconds: number
  /** Each waits for its answer before it sends the next request; 64 if left out. */
  readonly connections?: number
}

export interface Load {
  /** Those that were answered. */
  readonly requests: number
  /** Those and the ones under way at the end. */
  readonly sent: number
  readonly requestsPerSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** Answers of 400 and above. */
  readonly refused: number
  /** Connections that broke, and answers that did not come. */
  readonly failed: number
}

const CONNECTIONS = 64

export async function load({ url, name, callers, seconds, connections = CONNECTIONS }: LoadOptions): Promise<Load> {
  const wrk = ['-t', '1', '-c', `${connections}`, '-d', `${seconds}s`, '--timeout', '10s', '-s', SCRIPT, url]
  const { stdout } = await run('wrk', [...wrk, '--', name, `${callers}`])
  const line = stdout.split('\n').find((text) => text.startsWith('{'))
  if (!line) throw new Error(`wrk printed no figures: ${stdout}`)
  return JSON.parse(line)
}

/** @returns its version. @throws Error whose one line says what to install */
export async function findWrk(): Promise<string> {
  const version = await readVersion()
  if (version) return version
  console.error('wrk is not on PATH: installing it with apt-get …')
  await run('sh', ['-c', `${APT_INSTALL} || { apt-get update; ${APT_INSTALL}; }`]).catch(() => {})
  const installed = await readVersion()
  if (!installed) throw new Error('wrk is not on PATH. Install it: "apt-get install wrk", "brew install wrk"')
  return installed
}

async function readVersion(): Promise<string | undefined> {
  // It exits with 1 after it has printed its version.
  const { stdout } = await run('wrk', ['--version']).catch((error: { stdout?: string }) => error)
  return stdout ? /^wrk (\S+)/.exec(stdout)?.[1] : undefined
}
