import { isCallerKind } from '../../request/identity/source.ts'
import type { Exit } from '../command-error.ts'
import { CommandError } from '../command-error.ts'
import { connect } from '../redis/connection.ts'
import { readSettings } from '../settings/settings.ts'
import type { Context } from '../subcommand.ts'
import { digestNote, loadWorkerConfig, toEnvironment } from '../worker-config.ts'
import type { Operator } from './operator.ts'
import type { OperatorOptions } from './options.ts'
import { operateOverDatabase, type Subject } from './over-database.ts'
import { operateOverGateway } from './over-gateway.ts'

/**
 * Runs operations over a gateway if one is named, else over the Worker's database, or another one.
 * @param about the caller or target of the operations
 */
export async function withOperator(
  context: Context,
  options: OperatorOptions,
  subject: Subject,
  about: object,
  work: (operator: Operator) => Promise<void>,
): Promise<Exit> {
  const operator = await openOperator(context, options, subject, about)
  try {
    await work(operator)
    return 'done'
  } finally {
    await operator.close()
  }
}

/** @throws {CommandError} @throws {OptionError} */
async function openOperator(
  { terminal, env, cwd }: Context,
  { config, env: environment, redis, gateway }: OperatorOptions,
  subject: Subject,
  about: object,
): Promise<Operator> {
  const settings = readSettings({ cwd, shell: env, config, env: environment, view: 'development' })
  if (gateway !== undefined) {
    if (redis !== undefined) throw new CommandError('expected --gateway or --redis, not both')
    return operateOverGateway(gateway, settings.variables.ADMIN_TOKEN)
  }
  // Checked before a database is connected to.
  const worker = { config: loadWorkerConfig(settings), env: toEnvironment(settings) }
  const connection = await connect(settings, env, redis)
  if (subject === 'rules' && settings.variables.RULES !== 'on') {
    terminal.note('note: RULES is not "on" here: unless it is where the Worker runs, rules have no effect')
  }
  const makesDigests = Object.keys(about).some((part) => isCallerKind(part) || part === 'route')
  const note = makesDigests ? digestNote(settings) : undefined
  if (note !== undefined) terminal.note(note)
  return operateOverDatabase(connection, worker, subject)
}

/** @throws {CommandError} if there is no terminal, with this hint */
export async function confirm({ terminal, signal }: Context, question: string, hint: string): Promise<boolean> {
  const answer = await terminal.confirm(question, signal)
  if (answer === undefined) throw new CommandError('there is no terminal to ask', { hint })
  return answer
}
