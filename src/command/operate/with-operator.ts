import manifest from '../../../package.json' with { type: 'json' }
import { isCallerKind } from '../../core/model/identity-source.ts'
import { StoreError } from '../../core/model/store.ts'
import { RedisDocuments } from '../../core/store/redis/documents/redis-documents.ts'
import { type AdminContext, toProblem } from '../../gateway/admin/operation.ts'
import { readInput } from '../../gateway/api/read-input.ts'
import { formatAuditLogKey, formatRulesKey } from '../../gateway/rules/open-rules.ts'
import { CommandError, type Exit } from '../command-error.ts'
import { CALL_TIMEOUT_MS, type Connection, connect, createStore } from '../redis/connection.ts'
import { readSettings } from '../settings/settings.ts'
import type { Context } from '../subcommand.ts'
import { loadWorkerConfig, noteDigests, toEnvironment } from '../worker-config.ts'
import { explainProblem, type Operator } from './operator.ts'
import type { OperatorOptions } from './options.ts'
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
  const worker = { config: loadWorkerConfig(settings), env: toEnvironment(settings) }
  const connection = await connect(settings, env, redis)
  try {
    if (subject === 'rules' && settings.variables.RULES !== 'on') {
      terminal.note('note: RULES is off in this configuration; rules only work where the Worker has RULES = "on"')
    }
    if (Object.keys(about).some((part) => isCallerKind(part) || part === 'route')) noteDigests(settings, terminal)
    await work(operateOverDatabase(connection, worker, subject))
    return 'done'
  } finally {
    await connection.close()
  }
}

function operateOverDatabase(
  connection: Connection,
  { config, env }: Pick<AdminContext, 'config' | 'env'>,
  subject: Subject,
): Operator {
  const { client, secrets, name } = connection
  const openDocuments = (key: string) => new RedisDocuments({ client, secrets, key, timeoutMs: CALL_TIMEOUT_MS })
  const documents = openDocuments(formatRulesKey(config.keyPrefix))
  const auditLog = openDocuments(formatAuditLogKey(config.keyPrefix))
  const store = createStore(connection, config)
  // This process serves no requests, so it has none of the state of a gateway.
  const health = { kind: 'redis', reachable: null, rttMs: null, circuit: 'closed' } as const
  const state = () => ({ version: 0, id: '', readAtMs: undefined, problem: undefined })
  const context: AdminContext = {
    config,
    env,
    store,
    engine: store,
    now: Date.now,
    rulesEngine: subject === 'rules' || config.rules ? { documents, auditLog, state } : undefined,
    readHealth: async () => ({ status: 'ok', release: manifest.version, store: health }),
    upstream: undefined,
    counters: undefined,
  }
  return {
    name,
    place: { redis: name },
    async run({ body, query, run }, input) {
      const schema = body ?? query
      try {
        return await run(context, schema && readInput(schema, input))
      } catch (error) {
        if (error instanceof StoreError) throw error
        const { status, detail, extensions } = toProblem(error)
        throw explainProblem({ status, detail, pointer: extensions?.pointer as string | undefined })
      }
    },
  }
}
