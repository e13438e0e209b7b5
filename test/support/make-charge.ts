import type { RequestPolicy } from '../../src/core/model/policy.ts'
import type { RequestChargeBuilder } from '../../src/http/request/charge-builder.ts'
import { callContext } from './call-context.ts'

/** What a policy asks of a request to `/`, by a route of its own or none. */
export function makeCharge(builder: RequestChargeBuilder, policy: RequestPolicy, request: Request, route?: string) {
  return builder.build({ policy, route, isCertain: true }, request, '/', 'default', callContext())
}

/** The key that it is counted by, or why there is none. */
export async function makeChargeKey(...args: Parameters<typeof makeCharge>): Promise<string> {
  const requested = await makeCharge(...args)
  if (requested === 'skip') return requested
  return 'outcome' in requested ? requested.outcome : requested.key
}
