import type { Policy } from '../request/policy/policy.ts'
import { NO_RULES, type Rules } from '../rules/document.ts'
import { currentRules } from '../rules/editor.ts'
import { policiesOf } from '../rules/policies.ts'
import type { Operated } from './operation.ts'

/** What holds, by the newest rules and the deploy. */
export interface InForce {
  readonly rules: Rules
  readonly policies: readonly Policy[]
}

/** Isolates follow within twice RULES_REFRESH_MS. @throws {StoreError} @throws {ConfigError} */
export async function inForce({ governed, config, env }: Operated): Promise<InForce> {
  if (!governed) return { rules: NO_RULES, policies: config.policies }
  const { rules } = await currentRules(governed.documents)
  const policies = rules.policies === undefined ? config.policies : policiesOf(env, rules.policies, 'policies')
  return { rules, policies }
}
