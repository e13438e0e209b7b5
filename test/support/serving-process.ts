import type { ChildProcessByStdio } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { DECIDE_TOKEN } from './decisions.ts'
import { ofNode } from './of-node.ts'
import { startProgram } from './program.ts'
import { PATIENT } from './site.ts'

export interface ServingProcess {
  readonly url: URL
  /** Host and port of gRPC, with `--grpc`. */
  readonly grpc: string
  readonly pid: number
  /** Ends it, as an orchestrator does. @returns its exit code, and what it has said of errors */
  end(signal?: 'SIGTERM' | 'SIGINT'): Promise<{ readonly code: number | null; readonly stderr: string }>
  stop(): Promise<void>
}

const COMMAND = join(import.meta.dirname, '../../src/cli.ts')

interface ServingOptions {
  /** File that is the command. */
  readonly command?: string
  /** Default: a free one. */
  readonly port?: readonly string[]
}

/**
 * Runs `sluice serve`.
 * @param env variables, tables among them as objects
 * @param more arguments
 */
export async function startServing(
  env: Readonly<Record<string, unknown>>,
  more: readonly string[] = [],
  { command = COMMAND, port = ['--port', '0'] }: ServingOptions = {},
): Promise<ServingProcess> {
  const given = Object.entries({ DECIDE_TOKEN, ...PATIENT, ...env }).map(([name, value]) => [
    name,
    typeof value === 'string' ? value : JSON.stringify(value),
  ])
  const args = [command, 'serve', ...port, ...more]
  const program = startProgram<ChildProcessByStdio<null, Readable, Readable>>(process.execPath, args, {
    cwd: '/',
    env: { ...ofNode(), ...Object.fromEntries(given) },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const { child } = program
  const stderr = text(child.stderr)
  const end = async (signal: NodeJS.Signals) => ({ code: await program.end(signal), stderr: await stderr })
  for await (const line of createInterface(child.stdout)) {
    const [url] = /http:\S+/.exec(line) ?? []
    if (url === undefined) break
    child.stdout.resume()
    return {
      url: new URL(url),
      grpc: /grpc:\/\/(\S+?),/.exec(line)?.[1] ?? '',
      pid: program.pid,
      end: (signal = 'SIGTERM') => end(signal),
      stop: async () => void (await end('SIGKILL')),
    }
  }
  throw new Error(`sluice serve did not start: ${(await end('SIGKILL')).stderr}`)
}
