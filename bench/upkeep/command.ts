import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

const CLI = fileURLToPath(import.meta.resolve('../../src/cli.ts'))
const POLL_EVERY_MS = 10

export interface CommandOptions {
  /** Where it keeps what it goes on from. */
  readonly stateFolder: string
  readonly env?: Readonly<Record<string, string>>
  /** Ends it by this signal as soon as it has noted that it has passed so much. */
  readonly end?: { readonly signal: NodeJS.Signals; readonly atShare: number }
}

export interface CommandResult {
  readonly exitCode: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

/** Runs `sluice` in a process of its own. */
export async function runCommand(
  args: readonly string[],
  { stateFolder, env, end }: CommandOptions,
): Promise<CommandResult> {
  const child = spawn(process.execPath, [CLI, ...args], {
    env: { ...process.env, NO_COLOR: '1', XDG_STATE_HOME: stateFolder, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let [stdout, stderr] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (chunk) => (stdout += chunk))
  child.stderr.setEncoding('utf8').on('data', (chunk) => (stderr += chunk))
  const closed = once(child, 'close')
  if (end) {
    while (child.exitCode === null && notedShare(stateFolder) < end.atShare) await setTimeout(POLL_EVERY_MS)
    child.kill(end.signal)
  }
  const [exitCode, signal] = await closed
  return { exitCode, signal, stdout, stderr }
}

/** What the unfinished job has passed, 0 if there is none. */
export function notedShare(stateFolder: string): number {
  try {
    const folder = join(stateFolder, 'sluice')
    const file = readdirSync(folder).find((name) => name.endsWith('.json'))
    return file ? JSON.parse(readFileSync(join(folder, file), 'utf8')).share : 0
  } catch {
    return 0
  }
}
