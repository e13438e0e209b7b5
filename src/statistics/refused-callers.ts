import type { Observed } from '../http/observer.ts'
import { callerIn } from '../model/charge.ts'

/** A caller, and a policy that has refused it. */
export interface RefusedCaller {
  readonly policy: string
  /** As in Redis keys. */
  readonly digest: string
}

/** Whom the enforced policies have refused: each that did, once. Nobody, if the limits are not why. */
export function refusedCallers({
  verdict,
  findings,
}: Pick<Observed, 'verdict' | 'findings'>): readonly RefusedCaller[] {
  if (verdict.kind !== 'limited' && verdict.kind !== 'reserved') return []
  const callers: RefusedCaller[] = []
  for (const { match, rule } of findings.charges) {
    const { policy } = match
    if (policy.enforced && verdict.tiers.some((tier) => tier.policy === policy && tier.retryAfterMs > 0)) {
      callers.push({ policy: policy.name, digest: callerIn(rule.key) })
    }
  }
  return callers
}
