import completeFrom from '@bomb.sh/tab/commander'
import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import { createProgram } from './program.ts'
import { SUBCOMMANDS } from './subcommands.ts'

/** The program whose subcommand `complete` answers what may come next on a command line. */
export function createCompleter(version: string): CommandUnknownOpts {
  // It brings its own subcommand `completion`.
  const others = SUBCOMMANDS.filter(({ name }) => name !== 'completion')
  const program = createProgram(others, version, async () => {})
  for (const command of program.commands) command.description(command.summary())
  completeFrom(program as unknown as Parameters<typeof completeFrom>[0], { completionCommandName: 'completion' })
  return program
}
