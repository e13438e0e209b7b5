import { Command, type CommandUnknownOpts } from '@commander-js/extra-typings'
import { EXIT_CODES } from './exit-codes.ts'
import type { Run, Subcommand } from './subcommand.ts'

const DESCRIPTION =
  'Looks after Sluice from a terminal. It reads variables from the shell, from .dev.vars and from wrangler.toml (or .json, .jsonc), in this ' +
  'order, so that keys and digests are the Worker’s own.'

/** What a command line asks for. */
export interface Asked {
  readonly run: Run
  readonly isJson: boolean
}

/** The command `sluice` as the parser of arguments knows it. @param onAsked is told what the command line asks for */
export function createProgram(
  subcommands: readonly Subcommand[],
  version: string,
  onAsked: (asked: Asked) => Promise<void>,
): CommandUnknownOpts {
  const program = new Command('sluice')
    .description(DESCRIPTION)
    .version(version)
    .helpCommand('help [command]', 'show help')
    .configureHelp({ showGlobalOptions: true })
    .addHelpText('after', `\nExit codes:\n${exitCodeLines().join('\n')}\n`)
  for (const subcommand of subcommands) {
    const command = subcommand.build((run, { json }) => onAsked({ run, isJson: json === true }))
    const examples = subcommand.examples.map(({ shows, line }) => `  $ sluice ${line}\n      ${shows}`)
    if (examples.length > 0) command.addHelpText('after', `\nExamples:\n${examples.join('\n')}\n`)
    program.addCommand(command)
  }
  return program
}

function exitCodeLines(): string[] {
  return Object.values(EXIT_CODES).map(([code, meaning]) => `  ${`${code}`.padStart(3)}  ${meaning}`)
}
