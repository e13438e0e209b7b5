import type { RequestPolicy } from '../../src/model/policy.ts'
import type { RuleMaker } from '../../src/request/rule-maker.ts'
import { callContext } from './call-context.ts'

/** What a policy asks of a request to `/`, by a route of its own or none. */
export function makeRule(maker: RuleMaker, policy: RequestPolicy, request: Request, route?: string) {
  return maker.make({ policy, route, isCertain: true }, request, '/', 'default', callContext())
}

/** The key that it is counted by, or why there is none. */
export async function makeRuleKey(...args: Parameters<typeof makeRule>): Promise<string> {
  const asked = await makeRule(...args)
  return asked.kind === 'rule' ? asked.rule.key : asked.kind
}
