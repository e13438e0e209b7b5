import manifest from '../../../package.json' with { type: 'json' }
import type { AdminContext } from '../../admin/operation.ts'
import { toProblem } from '../../admin/operation.ts'
import { readInput } from '../../admin/read-input.ts'
import type { RulesState } from '../../engine/rules-engine.ts'
import type { Health } from '../../gateway/health.ts'
import { StoreError } from '../../model/store.ts'
import { journalKey, rulesKey } from '../../rules/open-rules.ts'
import { RedisDocuments } from '../../store/redis/documents/redis-documents.ts'
import { CALL_TIMEOUT_MS, type Connection, createStore } from '../redis/connection.ts'
import { explainProblem, type Operator } from './operator.ts'

/** What is read or changed: the counts of callers, or the rules themselves, also where RULES is not on. */
export type Subject = 'counts' | 'rules'

/** Runs operations in this process as a Worker would, with its configuration and database. */
export function operateOverDatabase(
  connection: Connection,
  { config, env }: Pick<AdminContext, 'config' | 'env'>,
  subject: Subject,
): Operator {
  const { client, secrets, name } = connection
  const openDocuments = (key: string) => new RedisDocuments({ client, secrets, key, timeoutMs: CALL_TIMEOUT_MS })
  const documents = openDocuments(rulesKey(config.keyPrefix))
  const journal = openDocuments(journalKey(config.keyPrefix))
  const store = createStore(connection, config)
  const operated: AdminContext = {
    config,
    env,
    store,
    engine: store,
    now: Date.now,
    governed: subject === 'rules' || config.rules ? { documents, journal, state: () => NO_ISOLATE } : undefined,
    readHealth: async () => NO_GATEWAY,
    upstream: undefined,
    counters: undefined,
  }
  return {
    name,
    place: { redis: name },
    close: () => connection.close(),
    async run(operation, { body, query } = {}) {
      try {
        return await operation.run(operated, {
          body: operation.body && readInput(operation.body, body),
          query: operation.query && readInput(operation.query, query),
        })
      } catch (error) {
        if (error instanceof StoreError) throw error
        const { status, detail, extensions } = toProblem(error)
        throw explainProblem({ status, detail, place: extensions?.place as string | undefined })
      }
    },
  }
}

/** This process serves no requests, so it has none of the state of a gateway. */
const NO_GATEWAY: Health = {
  status: 'ok',
  version: manifest.version,
  store: { kind: 'redis', reachable: null, rttMs: null, circuit: 'closed' },
}
const NO_ISOLATE: RulesState = { version: 0, id: '', readAtMs: undefined, problem: undefined, shadow: undefined }
