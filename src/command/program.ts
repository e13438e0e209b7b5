/** Lists the subcommands, and makes the program of them. */
import { script } from '@bomb.sh/tab'
import completeFrom from '@bomb.sh/tab/commander'
import { Argument, Command, type CommandUnknownOpts } from '@commander-js/extra-typings'
import manifest from '../../package.json' with { type: 'json' }
import { check } from './check.ts'
import { EXIT_CODES } from './command-error.ts'
import { reset, usage } from './counts.ts'
import { init } from './init.ts'
import { policies } from './policies.ts'
import { allow, block, override } from './rules.ts'
import { serve } from './serve.ts'
import { simulate } from './simulate.ts'
import { defineCommand, type Execute, type Subcommand } from './subcommand.ts'
import { top } from './top.ts'
import { deleteCommand, expire } from './upkeep.ts'

const completion = defineCommand({
  name: 'completion',
  summary: 'print a script for your shell that completes what you type',
  description:
    'Prints a script for your shell. Once it has read it, the Tab key completes subcommands, options and values of ' +
    'sluice, which must be on your PATH.',
  examples: {
    'completion bash > ~/.sluice.bash && source ~/.sluice.bash': 'for this bash; in ~/.bashrc for all',
    'completion zsh > ~/.zsh/completions/_sluice': 'for zsh, where fpath has that directory',
    'completion fish > ~/.config/fish/completions/sluice.fish': 'for fish',
  },
  hasJson: false,
  declare: (command) => command.addArgument(new Argument('<shell>').choices(['bash', 'zsh', 'fish'] as const)),
  async run(_context, _options, shell) {
    script(shell, 'sluice', 'sluice')
    return 'done'
  },
})

export const SUBCOMMANDS: readonly Subcommand[] = [
  init,
  check,
  simulate,
  usage,
  reset,
  block,
  allow,
  override,
  policies,
  serve,
  top,
  expire,
  deleteCommand,
  completion,
]

const DESCRIPTION =
  'Looks after Sluice from a terminal. It reads variables from the shell, from .dev.vars and from wrangler.toml (or .json, .jsonc), in this ' +
  'order, so that keys and digests are the Worker’s own.'

export function createProgram(execute: Execute, subcommands: readonly Subcommand[] = SUBCOMMANDS): CommandUnknownOpts {
  const exitCodes = Object.values(EXIT_CODES).map(([code, meaning]) => `  ${`${code}`.padStart(3)}  ${meaning}\n`)
  const program = new Command('sluice')
    .description(DESCRIPTION)
    .version(manifest.version)
    .helpCommand('help [command]', 'show help')
    .configureHelp({ showGlobalOptions: true })
    .addHelpText('after', `\nExit codes:\n${exitCodes.join('')}`)
  for (const subcommand of subcommands) {
    const command = subcommand.build(execute)
    const examples = Object.entries(subcommand.examples).map(([line, shows]) => `  $ sluice ${line}\n      ${shows}\n`)
    command.addHelpText('after', `\nExamples:\n${examples.join('')}`)
    program.addCommand(command)
  }
  return program
}

/** Creates the program whose subcommand `complete` lists the next words of a command line. */
export function createCompleter(): CommandUnknownOpts {
  // It brings its own subcommand `completion`.
  const program = createProgram(
    async () => {},
    SUBCOMMANDS.filter(({ name }) => name !== 'completion'),
  )
  for (const command of program.commands) command.description(command.summary())
  completeFrom(program as unknown as Parameters<typeof completeFrom>[0], { completionCommandName: 'completion' })
  return program
}
