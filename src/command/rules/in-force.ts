import type { Config } from '../../config/load-config.ts'
import { NO_RULES, type Rules } from '../../rules/document.ts'
import { currentRules } from '../../rules/editor.ts'
import { policiesOf } from '../../rules/policies.ts'
import { configOf, environmentOf } from '../caller/ask.ts'
import type { Connection } from '../redis/connection.ts'
import type { Settings } from '../settings/settings.ts'
import { RulesOfWorker } from './rules-of-worker.ts'

/** What holds where the Worker runs. */
export interface InForce {
  readonly rules: Rules
  /** With the policies of the rules, if they have any. */
  readonly config: Config
}

/** By the newest rules and what is deployed. Without RULES = "on", nothing is read. @throws {StoreError} */
export async function readInForce(connection: Connection, settings: Settings): Promise<InForce> {
  const config = configOf(settings)
  if (!config.rules) return { rules: NO_RULES, config }
  const { rules } = await currentRules(new RulesOfWorker(connection, settings).documents)
  if (rules.policies === undefined) return { rules, config }
  return { rules, config: { ...config, policies: policiesOf(environmentOf(settings), rules.policies, 'policies') } }
}
