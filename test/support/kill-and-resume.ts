/** Runs of `sluice expire` that are ended in the middle, each of which goes on where the one before it was ended. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout } from 'node:timers/promises'

const CLI = join(import.meta.dirname, '../../src/cli.ts')
const POLL_EVERY_MS = 10

export interface Runs {
  /** What ended each: a signal, or an exit code. */
  readonly ends: readonly (string | number | null)[]
  /** What the last one printed. */
  readonly summary: Readonly<Record<string, unknown>>
}

/** Gives keys a time to live; the process is killed once and stopped by Ctrl-C once, and goes on both times. */
export async function killAndResume(
  args: readonly string[],
  stateFolder: string,
  env: Readonly<Record<string, string>> = {},
): Promise<Runs> {
  const command = ['expire', ...args, '--yes', '--json']
  const variables = { ...process.env, NO_COLOR: '1', XDG_STATE_HOME: stateFolder, ...env }
  const killed = await runUntil(command, variables, 'SIGKILL', 0.25)
  const stopped = await runUntil([...command, '--resume'], variables, 'SIGINT', 0.55)
  const last = await runUntil([...command, '--resume'], variables)
  return { ends: [killed, stopped, last].map(({ end }) => end), summary: JSON.parse(last.stdout) }
}

/** @param share of the keys: as soon as it has noted that it has passed so much, the process gets the signal */
async function runUntil(
  args: readonly string[],
  env: NodeJS.ProcessEnv & { readonly XDG_STATE_HOME: string },
  signal?: NodeJS.Signals,
  share = 0,
) {
  const child = spawn(process.execPath, [CLI, ...args], { env, stdio: ['ignore', 'pipe', 'ignore'] })
  const ended = Promise.all([text(child.stdout), once(child, 'close')])
  if (signal) {
    while (child.exitCode === null && readShare(env.XDG_STATE_HOME) < share) await setTimeout(POLL_EVERY_MS)
    child.kill(signal)
  }
  const [stdout, [exitCode, endedBy]] = await ended
  return { stdout, end: (endedBy ?? exitCode) as string | number | null }
}

/** The share that the unfinished job has passed, 0 without one. */
function readShare(stateFolder: string): number {
  try {
    const folder = join(stateFolder, 'sluice')
    const file = readdirSync(folder).find((name) => name.endsWith('.json'))
    return file ? JSON.parse(readFileSync(join(folder, file), 'utf8')).share : 0
  } catch {
    return 0
  }
}
