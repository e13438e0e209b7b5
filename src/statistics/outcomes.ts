/**
 * What becomes of a request; of each but those that ask the gateway itself, one of these.
 *
 * - `limited` (429): over a limit; `reserved` (503): what is left is for more important requests; `shed` (503): the API is
 *   overloaded; `blocked`: the operator has said so.
 * - `unidentified` (401, or as `missing` says): the caller lacks what a policy counts by; `bad_request` (400, 414, 431,
 *   508): it cannot be read, or not in one way only.
 * - `unavailable` (503): the store is away, and a policy is then `closed`; `failed` (500): the gateway itself has failed.
 */
export const OUTCOMES = [
  'admitted',
  'limited',
  'reserved',
  'shed',
  'blocked',
  'unidentified',
  'bad_request',
  'unavailable',
  'failed',
] as const
export type Outcome = (typeof OUTCOMES)[number]

/**
 * What becomes of a request, seen by one of the policies that apply to it: the same, but `limited`, `reserved` and
 * `unidentified` only if this policy has refused it, else `refused_by_another`, which may be a block. `shadow_limited`: this
 * policy, which is in shadow mode, would have refused it.
 */
export const POLICY_OUTCOMES = [
  'admitted',
  'limited',
  'reserved',
  'shed',
  'unidentified',
  'bad_request',
  'unavailable',
  'refused_by_another',
  'shadow_limited',
] as const
export type PolicyOutcome = (typeof POLICY_OUTCOMES)[number]

/** How requests are decided while the store gives no answer. Those of `closed` have the outcome `unavailable`. */
export const DEGRADATIONS = ['local', 'open', 'local, open', 'closed'] as const
export type Degradation = (typeof DEGRADATIONS)[number]
