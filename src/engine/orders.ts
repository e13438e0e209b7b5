import type { Rule } from '../model/charge.ts'
import type { RequestPolicy } from '../model/policy.ts'

/** What a policy asks of the store for a request. */
export interface Asked {
  readonly policy: RequestPolicy
  readonly rule: Rule
}

/** What is asked in its place. */
export interface Ordered {
  readonly rule: Rule
  /** It is counted, but refuses nothing, and is not reported. */
  readonly isUnlimited?: boolean
}

/** The request is refused, whatever its limits. */
export interface Blocked {
  readonly kind: 'blocked'
  readonly status: number
  /** For the caller to read. */
  readonly reason?: string
  /** When it ends, milliseconds since the Unix epoch; left out, it does not. */
  readonly untilMs?: number
}

/** What operators have ordered for one request, beside its policies. */
export interface Orders {
  /** Its caller is never limited, though counted; nor is the request shed. */
  readonly isAllowed: boolean
  /** @returns for each of the asked what takes its place, in order; later, if the body of the request is to be read */
  apply(asked: readonly Asked[]): readonly Ordered[] | Blocked | Promise<readonly Ordered[] | Blocked>
}
