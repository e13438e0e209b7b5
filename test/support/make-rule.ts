import type { RequestPolicy } from '../../src/model/policy.ts'
import type { ChargeBuilder } from '../../src/request/charge-builder.ts'
import { callContext } from './call-context.ts'

/** What a policy asks of a request to `/`, by a route of its own or none. */
export function makeRule(builder: ChargeBuilder, policy: RequestPolicy, request: Request, route?: string) {
  return builder.build({ policy, route, isCertain: true }, request, '/', 'default', callContext())
}

/** The key that it is counted by, or why there is none. */
export async function makeRuleKey(...args: Parameters<typeof makeRule>): Promise<string> {
  const asked = await makeRule(...args)
  if (asked === 'skip') return asked
  return 'kind' in asked ? asked.kind : asked.key
}
