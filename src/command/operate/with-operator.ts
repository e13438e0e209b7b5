import type { Command } from '@commander-js/extra-typings'
import { configOf, digestNote } from '../caller/ask.ts'
import { CommandError } from '../command-error.ts'
import { connect } from '../redis/connection.ts'
import { CONFIG, ENV, GATEWAY, REDIS } from '../settings/options.ts'
import { readSettings, type Settings } from '../settings/settings.ts'
import type { Context } from '../subcommand.ts'
import type { Operator } from './operator.ts'
import { type About, operateOverDatabase } from './over-database.ts'
import { operateOverGateway } from './over-gateway.ts'

/** Where to ask. */
export interface Where {
  readonly config?: string | undefined
  readonly env?: string | undefined
  readonly redis?: string | undefined
  readonly gateway?: string | undefined
}

/** Adds what says where to ask. */
export function asking<Args extends unknown[], Options extends Record<string, unknown>>(
  command: Command<Args, Options>,
): Command<Args, Options & Where> {
  for (const option of [CONFIG, ENV, REDIS, GATEWAY]) command.addOption(option)
  return command as unknown as Command<Args, Options & Where>
}

export interface Task {
  readonly about: About
  /** Whether digests are made of what is known of a caller. */
  readonly makesDigests: boolean
}

/** Does something by way of a gateway if one is named, else with the Worker's database, or another one. */
export async function withOperator<Result>(
  context: Context,
  where: Where,
  task: Task,
  work: (operator: Operator) => Promise<Result>,
): Promise<Result> {
  const operator = await open(context, where, task)
  try {
    return await work(operator)
  } finally {
    await operator.close()
  }
}

/** @throws {CommandError} @throws {OptionError} */
async function open({ terminal, env, cwd }: Context, where: Where, { about, makesDigests }: Task): Promise<Operator> {
  const { config, env: environment, redis, gateway } = where
  const settings = readSettings({ cwd, shell: env, config, env: environment, view: 'development' })
  if (gateway !== undefined) {
    if (redis !== undefined) throw new CommandError('expected --gateway or --redis, not both')
    return operateOverGateway(gateway, settings.variables.ADMIN_TOKEN)
  }
  // Told before a database is asked.
  configOf(settings)
  const connection = await connect(settings, env, redis)
  const notes = [about === 'rules' ? rulesNote(settings) : undefined, makesDigests ? digestNote(settings) : undefined]
  for (const note of notes) if (note !== undefined) terminal.note(note)
  return operateOverDatabase(connection, settings, about)
}

/** What may keep rules from having an effect. */
function rulesNote({ variables }: Settings): string | undefined {
  return variables.RULES === 'on'
    ? undefined
    : 'note: RULES is not "on" here: unless it is where the Worker runs, rules have no effect'
}
