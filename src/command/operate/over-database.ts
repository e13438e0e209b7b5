import type { Operated } from '../../admin/operation.ts'
import { problemOf } from '../../admin/problem-of.ts'
import { readInput } from '../../admin/read-input.ts'
import type { RulesState } from '../../engine/governed.ts'
import type { Health } from '../../gateway/health.ts'
import { StoreError } from '../../model/store.ts'
import { journalKey, rulesKey } from '../../rules/gateway-rules.ts'
import { RedisDocuments } from '../../store/redis/documents/redis-documents.ts'
import { configOf, environmentOf } from '../caller/ask.ts'
import { CALL_TIMEOUT_MS, type Connection } from '../redis/connection.ts'
import { storeOf } from '../redis/store-of.ts'
import type { Settings } from '../settings/settings.ts'
import { version } from '../version.ts'
import type { Operator } from './operator.ts'
import { problemError } from './problem-error.ts'

/** What is asked: what callers have used, or the rules themselves, also where RULES is not on. */
export type About = 'counts' | 'rules'

/** Does in this process what a Worker would do, with the same configuration and database. @throws {OptionError} */
export function operateOverDatabase(connection: Connection, settings: Settings, about: About): Operator {
  const operated = operatedOver(connection, settings, about)
  return {
    name: connection.name,
    shown: { redis: connection.name },
    close: () => connection.close(),
    async ask(operation, { body, query } = {}) {
      try {
        return await operation.run(operated, {
          body: operation.body && readInput(operation.body, body),
          query: operation.query && readInput(operation.query, query),
        })
      } catch (error) {
        if (error instanceof StoreError) throw error
        const { status, detail, extensions } = problemOf(error)
        throw problemError({ status, detail, place: extensions?.place as string | undefined })
      }
    },
  }
}

function operatedOver(connection: Connection, settings: Settings, about: About): Operated {
  const config = configOf(settings)
  const store = storeOf(connection, config)
  const { client, secrets } = connection
  const documentsAt = (key: string) => new RedisDocuments({ client, secrets, key, timeoutMs: CALL_TIMEOUT_MS })
  const documents = documentsAt(rulesKey(config.keyPrefix))
  const journal = documentsAt(journalKey(config.keyPrefix))
  return {
    ...{ config, env: environmentOf(settings), store, decider: store, now: Date.now },
    governed: about === 'rules' || config.rules ? { documents, journal, state: () => NO_ISOLATE } : undefined,
    readHealth: async () => NO_GATEWAY,
    ...{ upstream: undefined, counters: undefined },
  }
}

/** This process serves nobody: what a gateway alone can tell, it does not know. */
const NO_GATEWAY: Health = {
  status: 'ok',
  version,
  store: { kind: 'redis', reachable: null, rttMs: null, circuit: 'closed' },
}
const NO_ISOLATE: RulesState = { version: 0, id: '', readAtMs: undefined, problem: undefined, shadow: undefined }
