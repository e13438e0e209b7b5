/** What is counted for all callers together is no caller's: no rule about one may name it. */

import type { RequestPolicy } from '../model/policy.ts'
import { createDigest } from '../request/identity/digest.ts'
import { isShared } from '../request/identity/source.ts'
import { refusedCallersIn } from '../statistics/read-statistics.ts'
import { KEPT_MS } from '../store/counters.ts'
import { inForce } from './in-force.ts'
import type { Operated } from './operation.ts'

/**
 * Whether this is the digest of a policy that counts for everyone, or for all who use a route.
 * @throws {StoreError} @throws {OptionError} if what is stored are no rules
 */
export async function isOfEveryone(digest: string, operated: Operated): Promise<boolean> {
  const { config, counters, now } = operated
  const digestOf = createDigest(config.identitySecret)
  const { policies } = await inForce(operated)
  const shared = [...policies, ...config.policies].filter(({ by }) => isShared(by))
  if (shared.some((policy) => identitiesOf(policy).some((identity) => digestOf(identity) === digest))) return true
  // Of what counts by path, there is no list: only those that have refused somebody are known.
  const names = new Set(shared.filter(isByPath).map(({ name }) => name))
  if (!counters || names.size === 0) return false
  const periods = await counters.read('hour', now() - KEPT_MS.hour, now() + 1)
  return periods.some((period) =>
    refusedCallersIn(period).callers.some((caller) => caller.digest === digest && names.has(caller.policy)),
  )
}

/** As far as they can be listed. */
function identitiesOf(policy: RequestPolicy): readonly (readonly string[])[] {
  const { by, match } = policy
  if (isByPath(policy)) return []
  const routes = match?.map(({ method, path }) => `${method} ${path}`) ?? ['']
  return routes.map((route) => by.flatMap(({ kind }) => [kind, kind === 'route' ? route : '']))
}

function isByPath({ by, match }: RequestPolicy): boolean {
  return match === undefined && by.some(({ kind }) => kind === 'route')
}
