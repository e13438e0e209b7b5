/** Tells of the usage of a caller what its next request meets: what the dashboard and the command say is worked out here. */
import type { InferOutput } from 'valibot'
import type { LimitUsage } from '../callers/caller-charges.ts'
import type * as answers from './answers.ts'

type UsageAnswer = InferOutput<typeof answers.usage>
export type NextLimit = Pick<LimitUsage, 'policy' | 'plan' | 'assumed' | 'retryAfterMs' | 'unlimited' | 'shadow'>

/** Outcome of the next request of a caller, if these limits apply to it. */
export type NextRequest<Limit> =
  | { readonly kind: 'blocked'; readonly block: NonNullable<UsageAnswer['blocked']> }
  | { readonly kind: 'allowed' }
  /** The limit that is the last to let it in again. */
  | { readonly kind: 'limited'; readonly limit: Limit }
  /** It is limited on these plans, and not on others: which one it has is not known. */
  | { readonly kind: 'depends'; readonly plans: readonly string[] }
  | { readonly kind: 'admitted' }

export function findNextRequest<Limit extends NextLimit>(
  { blocked, allowed }: Pick<UsageAnswer, 'blocked' | 'allowed'>,
  limits: readonly Limit[],
): NextRequest<Limit> {
  if (blocked && !blocked.shadow) return { kind: 'blocked', block: blocked }
  if (allowed) return { kind: 'allowed' }
  const full = limits.filter(isFull)
  const [limit] = full
    .filter((one) => !one.assumed || isFullOnEachPlan(one.policy, limits))
    .toSorted((a, b) => b.retryAfterMs - a.retryAfterMs)
  if (limit) return { kind: 'limited', limit }
  const plans = [...new Set(full.map(({ plan }) => plan ?? ''))]
  return plans.length > 0 ? { kind: 'depends', plans } : { kind: 'admitted' }
}

/** Refuses the next request of its plan. */
export function isFull({ retryAfterMs, unlimited, shadow }: NextLimit): boolean {
  return retryAfterMs > 0 && !unlimited && !shadow
}

function isFullOnEachPlan(policy: string, limits: readonly NextLimit[]): boolean {
  const own = limits.filter((one) => one.policy === policy)
  return own.every(({ plan }) => own.some((one) => one.plan === plan && isFull(one)))
}

/** Lists in words what is not known of the rules, so that the next request may meet something else. */
export function listDoubts(active: UsageAnswer['active'], undecided: readonly string[] = []): readonly string[] {
  const { state, version } = active
  const doubts = {
    deployed: [],
    active: [],
    invalid: [`The newest rules cannot be followed; version ${version} is enforced here, and none by a new isolate.`],
    lost: [`The rules are gone from the store; version ${version} is enforced here, and none by a new isolate.`],
    unknown: [`Whether there are newer rules than version ${version} is not known: the store does not answer.`],
  } as const satisfies Record<typeof state, readonly string[]>
  if (undecided.length === 0) return doubts[state]
  return [
    ...doubts[state],
    `Rules by ${undecided.join(', ')} may decide otherwise: what this caller has there is not known here.`,
  ]
}
