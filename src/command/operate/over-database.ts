import type { Operated } from '../../admin/operation.ts'
import { problemOf } from '../../admin/problem-of.ts'
import { readInput } from '../../admin/read-input.ts'
import type { RulesState } from '../../engine/governed.ts'
import type { Health } from '../../gateway/health.ts'
import { StoreError } from '../../model/store.ts'
import { journalKey, rulesKey } from '../../rules/gateway-rules.ts'
import { RedisDocuments } from '../../store/redis/documents/redis-documents.ts'
import { CALL_TIMEOUT_MS, type Connection } from '../redis/connection.ts'
import { storeOf } from '../redis/store-of.ts'
import { version } from '../version.ts'
import { explainProblem, type Operator } from './operator.ts'

/** What is read or changed: the counts of callers, or the rules themselves, also where RULES is not on. */
export type Subject = 'counts' | 'rules'

/** Runs operations in this process as a Worker would, with its configuration and database. */
export function operateOverDatabase(
  connection: Connection,
  worker: Pick<Operated, 'config' | 'env'>,
  subject: Subject,
): Operator {
  const operated = createOperated(connection, worker, subject)
  return {
    name: connection.name,
    place: { redis: connection.name },
    close: () => connection.close(),
    async run(operation, { body, query } = {}) {
      try {
        return await operation.run(operated, {
          body: operation.body && readInput(operation.body, body),
          query: operation.query && readInput(operation.query, query),
        })
      } catch (error) {
        if (error instanceof StoreError) throw error
        const { status, detail, extensions } = problemOf(error)
        throw explainProblem({ status, detail, place: extensions?.place as string | undefined })
      }
    },
  }
}

function createOperated(
  connection: Connection,
  { config, env }: Pick<Operated, 'config' | 'env'>,
  subject: Subject,
): Operated {
  const store = storeOf(connection, config)
  const { client, secrets } = connection
  const documentsAt = (key: string) => new RedisDocuments({ client, secrets, key, timeoutMs: CALL_TIMEOUT_MS })
  const documents = documentsAt(rulesKey(config.keyPrefix))
  const journal = documentsAt(journalKey(config.keyPrefix))
  return {
    ...{ config, env, store, decider: store, now: Date.now },
    governed: subject === 'rules' || config.rules ? { documents, journal, state: () => NO_ISOLATE } : undefined,
    readHealth: async () => NO_GATEWAY,
    ...{ upstream: undefined, counters: undefined },
  }
}

/** This process serves no requests, so it has none of the state of a gateway. */
const NO_GATEWAY: Health = {
  status: 'ok',
  version,
  store: { kind: 'redis', reachable: null, rttMs: null, circuit: 'closed' },
}
const NO_ISOLATE: RulesState = { version: 0, id: '', readAtMs: undefined, problem: undefined, shadow: undefined }
