/** Defines a subcommand, and the context that it gets. */
import { Command, type CommandUnknownOpts, Option } from '@commander-js/extra-typings'
import { CommandError, type Exit } from './command-error.ts'
import type { Terminal } from './terminal.ts'

export const CONFIG = new Option('-c, --config <file>', 'wrangler.toml, .json or .jsonc (default: the nearest upwards)')
export const ENV = new Option('-e, --env <name>', 'environment of that file').env('CLOUDFLARE_ENV')
export const REDIS = new Option(
  '--redis <url>',
  'database in place of the Worker’s: redis://, rediss:// or the REST URL of Upstash (its token is UPSTASH_REDIS_REST_TOKEN)',
)
export const GATEWAY = new Option(
  '--gateway <url>',
  'ask the admin API of this gateway, such as https://edge.example.com, and no database; ADMIN_TOKEN comes from the environment or .dev.vars',
)
export const YES = new Option('-y, --yes', 'do not ask')
const JSON_OUTPUT = new Option('--json', 'print one JSON document in place of text')

export interface Context {
  readonly terminal: Terminal
  readonly env: Readonly<Record<string, string | undefined>>
  readonly cwd: string
  /** Aborted by Ctrl-C: stop where the work can be resumed, and report. */
  readonly signal: AbortSignal
}

interface About {
  readonly name: string
  readonly summary: string
  readonly description: string
  /** Descriptions by command line, without the leading `sluice`. */
  readonly examples: Readonly<Record<string, string>>
  /** Its output has no form in JSON. */
  readonly hasJson?: false
}

export interface Subcommand extends About {
  build(execute: Execute): CommandUnknownOpts
}

export type Run = (context: Context) => Promise<Exit>
export type Execute = (run: Run, isJson: boolean) => Promise<void> | void

// biome-ignore lint/suspicious/noExplicitAny: whatever arguments and options it declares
type AnyCommand = Command<any[], any>

interface Definition<Declared extends AnyCommand> extends About {
  readonly declare: (command: Command) => Declared
  /** @param options as declared @param args in the order of their declaration */
  run(context: Context, options: ReturnType<Declared['opts']>, ...args: Declared['processedArgs']): Promise<Exit>
}

export function defineCommand<Declared extends AnyCommand>(definition: Definition<Declared>): Subcommand {
  const { declare, run, ...about } = definition
  return {
    ...about,
    build(execute) {
      const command = declare(new Command(about.name).summary(about.summary).description(about.description))
      if (about.hasJson !== false) command.addOption(JSON_OUTPUT)
      if (!command.options.some(({ long }) => long === '--gateway')) command.addOption(createGatewayRefusal(about.name))
      command.action((...values: unknown[]) => {
        // The command itself comes last, its options before it.
        const args = values.slice(0, -2) as Declared['processedArgs']
        const options = values.at(-2) as ReturnType<Declared['opts']>
        return execute((context) => run(context, options, ...args), 'json' in options)
      })
      return command
    },
  }
}

/** Explains itself to operators who know the option from other subcommands. */
function createGatewayRefusal(name: string): Option {
  return new Option('--gateway <url>').hideHelp().argParser(() => {
    throw new CommandError(`sluice ${name}: --gateway is not for it: the admin API has no such operation`)
  })
}
