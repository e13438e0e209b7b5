/** Load by wrk, in a process of its own. */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { findProgram, type Program } from '../../tools/programs.ts'

const run = promisify(execFile)
const SCRIPT = fileURLToPath(import.meta.resolve('./wrk.lua'))
const WRK: Program = {
  title: 'wrk',
  names: ['wrk'],
  packages: { 'apt-get': 'wrk', brew: 'wrk' },
  advice: 'Install it: "apt-get install wrk", "brew install wrk"',
}

export type Fields = 2 | 21

export interface LoadOptions {
  readonly url: string
  /** Callers take turns at random, each with a token of its own that begins with `name`. */
  readonly name: string
  readonly callers: number
  /** Header fields of a request: 2, or as many as an API gets from a browser through Cloudflare. */
  readonly fields?: Fields
  readonly seconds: number
  /** Each waits for its answer before it sends the next request; 64 if left out. */
  readonly connections?: number
}

export interface Load {
  /** How many were answered or under way at the end. */
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

export async function load(options: LoadOptions): Promise<Load> {
  const { url, name, callers, fields = 2, seconds, connections = CONNECTIONS } = options
  const wrk = ['-t', '1', '-c', `${connections}`, '-d', `${seconds}s`, '--timeout', '10s', '-s', SCRIPT, url]
  const { stdout } = await run('wrk', [...wrk, '--', name, `${callers}`, `${fields}`])
  const line = stdout.split('\n').find((text) => text.startsWith('{'))
  if (!line) throw new Error(`wrk printed no figures: ${stdout}`)
  return JSON.parse(line)
}

/** @returns its version. @throws Error whose one line says what to install */
export async function findWrk(): Promise<string> {
  const program = await findProgram(WRK)
  // It exits with 1 after it has printed its version.
  const { stdout = '' } = await run(program, ['--version']).catch((error: { stdout?: string }) => error)
  return /^wrk (\S+)/.exec(stdout)?.[1] ?? '?'
}
