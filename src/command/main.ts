import { CommanderError, type CommandUnknownOpts } from '@commander-js/extra-typings'
import { OptionError } from '../config/option-error.ts'
import { StoreError } from '../model/store.ts'
import { CallerError } from '../request/caller/caller-in-text.ts'
import { CommandError } from './command-error.ts'
import { createCompleter } from './completer.ts'
import { type Exit, exitCode } from './exit-codes.ts'
import { type Asked, createProgram } from './program.ts'
import { SUBCOMMANDS } from './subcommands.ts'
import { Terminal } from './terminal.ts'
import { version } from './version.ts'

/** What is used of the process. */
export type World = Pick<NodeJS.Process, 'stdin' | 'stdout' | 'stderr' | 'env' | 'cwd' | 'exit'> & {
  on(event: 'SIGINT', listener: () => void): unknown
}

/** Runs a command line to its end. @returns the exit code */
export async function main(args: readonly string[], process: World): Promise<number> {
  const { stdin, stdout, stderr, env } = process
  // The reader of a pipe has had enough.
  stdout.on('error', ({ code }: NodeJS.ErrnoException) =>
    process.exit(exitCode(code === 'EPIPE' ? 'done' : 'unexpected')),
  )
  const { signal } = interruptionOf(process)
  const streams = { stdin, stdout, stderr }
  try {
    const asked = await parse(args, streams)
    if (!asked) return exitCode('done')
    const terminal = new Terminal({ ...streams, isJson: asked.isJson })
    return exitCode(await asked.run({ terminal, env, cwd: process.cwd(), signal }))
  } catch (error) {
    if (signal.aborted) return exitCode('interrupted')
    // It has said what is wrong.
    if (error instanceof CommanderError) return exitCode(error.exitCode === 0 ? 'done' : 'misuse')
    return exitCode(tell(error, new Terminal({ ...streams, isJson: args.includes('--json') })))
  }
}

/** @returns undefined if nothing is left to be done @throws {CommanderError} */
async function parse(
  args: readonly string[],
  { stdout, stderr }: Pick<World, 'stdout' | 'stderr'>,
): Promise<Asked | undefined> {
  const asked: Asked[] = []
  const onAsked = async (each: Asked) => void asked.push(each)
  // Asked by the script that `sluice completion` prints.
  const program = args[0] === 'complete' ? createCompleter(version) : createProgram(SUBCOMMANDS, version, onAsked)
  const writers = { writeOut: (text: string) => stdout.write(text), writeErr: (text: string) => stderr.write(text) }
  const prepare = (command: CommandUnknownOpts) => command.exitOverride().configureOutput(writers)
  for (const command of [program, ...program.commands]) prepare(command)
  await program.parseAsync(args, { from: 'user' })
  return asked[0]
}

/** Aborted by the first Ctrl-C; the second one ends the process. */
function interruptionOf(process: World): AbortController {
  const interruption = new AbortController()
  process.on('SIGINT', () => {
    if (interruption.signal.aborted) process.exit(exitCode('interrupted'))
    interruption.abort()
  })
  return interruption
}

/** Prints what went wrong, and what to do. */
function tell(error: unknown, terminal: Terminal): Exit {
  const { message, hint, exit } = toCommandError(error)
  if (terminal.isJson) terminal.show({ error: message, ...(hint !== undefined && { hint }) }, () => '')
  terminal.note(`error: ${message}`)
  if (hint !== undefined) terminal.note(`  ${hint}`)
  return exit
}

function toCommandError(error: unknown): CommandError {
  if (error instanceof CommandError) return error
  if (error instanceof OptionError) {
    return new CommandError(error.message, { hint: 'sluice check says where it is, and what else is wrong.' })
  }
  if (error instanceof CallerError) {
    // A request is an option of some subcommands, and an argument of others.
    const isOption = error.part !== undefined && error.part !== 'route'
    return new CommandError(isOption ? `--${error.part}: ${error.message}` : error.message)
  }
  if (error instanceof StoreError) return new CommandError(error.message, { exit: 'redis' })
  const { name = 'unknown', stack = '' } = error instanceof Error ? error : {}
  // Not its message, which may hold anything.
  const place = /\n\s+at (.*)/.exec(stack)?.[1] ?? ''
  const hint = 'This is a bug of sluice: please report it.'
  return new CommandError(`unexpected ${name} ${place}`.trim(), { exit: 'unexpected', hint })
}
