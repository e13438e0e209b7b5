import { CommanderError } from '@commander-js/extra-typings'
import { ConfigError } from '../config/config-error.ts'
import { StoreError } from '../store/store.ts'
import { CommandError } from './command-error.ts'
import { createCompleter } from './completer.ts'
import { type Exit, exitCode } from './exit-codes.ts'
import { type Asked, createProgram } from './program.ts'
import { SUBCOMMANDS } from './subcommands.ts'
import { Terminal } from './terminal.ts'
import { version } from './version.ts'

/** Runs a command line to its end. @returns the exit code */
export async function main(args: readonly string[], process: NodeJS.Process): Promise<number> {
  const { stdin, stdout, stderr, env } = process
  // The reader of a pipe has had enough.
  stdout.on('error', (error: NodeJS.ErrnoException) =>
    process.exit(error.code === 'EPIPE' ? 0 : exitCode('unexpected')),
  )
  const interruption = new AbortController()
  process.on('SIGINT', () => {
    if (interruption.signal.aborted) process.exit(exitCode('interrupted'))
    interruption.abort()
  })

  const asked: Asked[] = []
  const onAsked = async (each: Asked) => void asked.push(each)
  // Asked by the script that `sluice completion` prints.
  const isCompleting = args[0] === 'complete'
  const program = isCompleting ? createCompleter(version) : createProgram(SUBCOMMANDS, version, onAsked)
  for (const command of [program, ...program.commands]) {
    command
      .exitOverride()
      .configureOutput({ writeOut: (text) => stdout.write(text), writeErr: (text) => stderr.write(text) })
  }
  try {
    await program.parseAsync(args, { from: 'user' })
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? exitCode('done') : exitCode('misuse')
    throw error
  }
  const [request] = asked
  if (!request) return exitCode('done')
  const terminal = new Terminal({ stdin, stdout, stderr, isJson: request.isJson })
  const { signal } = interruption
  try {
    return exitCode(await request.run({ terminal, env, cwd: process.cwd(), signal }))
  } catch (error) {
    if (signal.aborted) return exitCode('interrupted')
    return exitCode(tell(error, terminal))
  }
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
  if (error instanceof ConfigError) {
    return new CommandError(error.message, { hint: 'sluice check tells where it is, and what else is wrong.' })
  }
  if (error instanceof StoreError) return new CommandError(error.message, { exit: 'redis' })
  const { name = 'unknown', stack = '' } = error instanceof Error ? error : {}
  // Not its message, which may hold anything.
  const place = /\n\s+at (.*)/.exec(stack)?.[1] ?? ''
  return new CommandError(`unexpected ${name} ${place}`.trim(), {
    exit: 'unexpected',
    hint: 'This is a bug of sluice: please report it.',
  })
}
