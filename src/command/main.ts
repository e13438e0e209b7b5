/** Runs one command line: its signals, its errors and its exit code. */
import { CommanderError } from '@commander-js/extra-typings'
import { StoreError } from '../core/model/store.ts'
import { OptionError } from '../core/options/option-error.ts'
import { CallerError } from '../gateway/callers/caller-in-text.ts'
import { CommandError, createBugError, EXIT_CODES, type Exit } from './command-error.ts'
import { createCompleter, createProgram } from './program.ts'
import type { Run } from './subcommand.ts'
import { Terminal } from './terminal.ts'

export type World = Pick<NodeJS.Process, 'stdin' | 'stdout' | 'stderr' | 'env' | 'cwd' | 'exit'> & {
  on(event: 'SIGINT', listener: () => void): unknown
}

/** Runs a command line to its end. @returns the exit code */
export async function main(args: readonly string[], process: World): Promise<number> {
  const { stdin, stdout, stderr, env } = process
  const exitCode = (exit: Exit) => EXIT_CODES[exit][0]
  // The first Ctrl-C stops the work where it can be resumed; the second one ends the process.
  const interruption = new AbortController()
  let isUnread = false
  stdout.on('error', ({ code }: NodeJS.ErrnoException) => {
    if (code !== 'EPIPE') {
      stderr.write(`error: the output cannot be written (${code})\n`)
      process.exit(exitCode('unexpected'))
    }
    // The reader of a pipe has closed it: what repeats itself ends, and the result of all else is still the exit code.
    isUnread = true
    interruption.abort()
  })
  // Nobody reads the messages, and the work goes on.
  stderr.on('error', () => {})
  process.on('SIGINT', () => {
    if (interruption.signal.aborted) process.exit(exitCode('interrupted'))
    interruption.abort()
  })
  const { signal } = interruption
  const streams = { stdin, stdout, stderr, signal }
  try {
    let exit = 'done' as Exit
    const execute = async (run: Run, isJson: boolean) => {
      const terminal = new Terminal({ ...streams, isJson })
      exit = await run({ terminal, env, cwd: process.cwd(), signal })
    }
    // `complete` is called by the script that `sluice completion` prints.
    const program = args[0] === 'complete' ? createCompleter() : createProgram(execute)
    const writers = { writeOut: (text: string) => stdout.write(text), writeErr: (text: string) => stderr.write(text) }
    for (const command of [program, ...program.commands]) command.exitOverride().configureOutput(writers)
    await program.parseAsync(args, { from: 'user' })
    return exitCode(isUnread && exit === 'interrupted' ? 'done' : exit)
  } catch (error) {
    if (signal.aborted && !isUnread) return exitCode('interrupted')
    // Commander has printed what is wrong.
    if (error instanceof CommanderError) return exitCode(error.exitCode === 0 ? 'done' : 'misuse')
    return exitCode(report(error, new Terminal({ ...streams, isJson: args.includes('--json') })))
  }
}

function report(error: unknown, terminal: Terminal): Exit {
  const { message, hint, exit } = toCommandError(error)
  if (terminal.isJson) terminal.show({ error: message, ...(hint !== undefined && { hint }) }, () => '')
  terminal.note(`error: ${message}`)
  if (hint !== undefined) terminal.note(`  ${hint}`)
  return exit
}

function toCommandError(error: unknown): CommandError {
  if (error instanceof CommandError) return error
  if (error instanceof OptionError) {
    return new CommandError(error.message, {
      hint: 'If it is in wrangler.toml, sluice check says where, and what else is wrong.',
    })
  }
  if (error instanceof CallerError) {
    // A request is an option of some subcommands, and an argument of others.
    const isOption = error.part !== undefined && error.part !== 'route'
    return new CommandError(isOption ? `--${error.part}: ${error.message}` : error.message)
  }
  if (error instanceof StoreError) return new CommandError(error.message, { exit: 'redis' })
  const { name = 'unknown', stack = '' } = error instanceof Error ? error : {}
  // Its message may hold anything, secrets included.
  const frame = /\n\s+at (.*)/.exec(stack)?.[1] ?? ''
  return createBugError(`unexpected ${name} ${frame}`.trim())
}
