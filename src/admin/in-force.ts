import { OptionError } from '../config/option-error.ts'
import type { RequestPolicy } from '../model/policy.ts'
import { NO_RULES, type Rules } from '../rules/document.ts'
import { currentRules } from '../rules/editor.ts'
import { policiesOf } from '../rules/policies.ts'
import type { Operated } from './operation.ts'

/** What holds, by the newest rules and the deploy. */
export interface InForce {
  readonly rules: Rules
  readonly policies: readonly RequestPolicy[]
}

/**
 * Isolates follow within twice RULES_REFRESH_MS. If the newest rules do not fit what was deployed, it holds, as it does
 * in an isolate that starts with them.
 * @throws {StoreError} @throws {OptionError} if what is stored are no rules
 */
export async function inForce({
  governed,
  config,
  env,
  store,
}: Pick<Operated, 'governed' | 'config' | 'env' | 'store'>): Promise<InForce> {
  if (!governed) return { rules: NO_RULES, policies: config.policies }
  const { rules } = await currentRules(governed.documents)
  if (rules.policies === undefined) return { rules, policies: config.policies }
  try {
    const policies = policiesOf(env, rules.policies, 'policies')
    // The isolate may not follow them yet.
    store.learn?.(policies.map(({ algorithm }) => algorithm))
    return { rules, policies }
  } catch (error) {
    if (error instanceof OptionError) return { rules: NO_RULES, policies: config.policies }
    throw error
  }
}
