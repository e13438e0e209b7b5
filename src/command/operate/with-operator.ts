/** Finds where the operations of a subcommand are to run: at a gateway, or over a database. */
import { isCallerKind } from '../../core/model/identity-source.ts'
import { CommandError, type Exit } from '../command-error.ts'
import { connect } from '../redis/connection.ts'
import { readSettings } from '../settings/settings.ts'
import type { Context } from '../subcommand.ts'
import { loadWorkerConfig, noteDigests, toEnvironment } from '../worker-config.ts'
import type { Operator } from './operator.ts'
import type { OperatorOptions } from './options.ts'
import { operateOverDatabase } from './over-database.ts'
import { operateOverGateway } from './over-gateway.ts'

/** The subject `rules` is available even if RULES is not "on". */
type Subject = 'counts' | 'rules'

/** @param about the caller or target of the operations */
export async function withOperator(
  { terminal, env, cwd, signal }: Context,
  { config, env: environment, redis, gateway }: OperatorOptions,
  subject: Subject,
  about: object,
  work: (operator: Operator) => Promise<void>,
): Promise<Exit> {
  const settings = readSettings({ cwd, shell: env, config, env: environment, view: 'development' })
  if (gateway !== undefined) {
    if (redis !== undefined) throw new CommandError('expected --gateway or --redis, not both')
    await work(operateOverGateway(gateway, settings.variables.ADMIN_TOKEN, signal))
    return 'done'
  }
  // The configuration is checked before a connection is made.
  loadWorkerConfig(settings)
  const connections = await connect(settings, env, redis)
  try {
    const needsRules = subject === 'rules'
    if (needsRules && settings.variables.RULES !== 'on') {
      terminal.note('note: RULES is off in this configuration; rules only work where the Worker has RULES = "on"')
    }
    if (Object.keys(about).some((part) => isCallerKind(part) || part === 'route')) noteDigests(settings, terminal)
    const variables = { ...toEnvironment(settings), ...(needsRules && { RULES: 'on' }) }
    await work(await operateOverDatabase(connections, variables))
    return 'done'
  } finally {
    await Promise.all(connections.map((connection) => connection.close()))
  }
}
