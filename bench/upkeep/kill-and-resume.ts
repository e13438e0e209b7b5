import { runCommand } from './command.ts'

/** Runs of one job, each of which goes on where the one before it was ended. */
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
  const killed = await runCommand(command, { stateFolder, env, end: { signal: 'SIGKILL', atShare: 0.25 } })
  const stopped = await runCommand([...command, '--resume'], {
    ...{ stateFolder, env, end: { signal: 'SIGINT', atShare: 0.55 } },
  })
  const last = await runCommand([...command, '--resume'], { stateFolder, env })
  return {
    ends: [killed, stopped, last].map(({ signal, exitCode }) => signal ?? exitCode),
    summary: JSON.parse(last.stdout),
  }
}
