import type { Charge, Decision, DecisionRequest, StoreCharge } from '../../src/core/model/charge.ts'
import type { Limit } from '../../src/core/model/limits.ts'
import { ALGORITHM_NAMES, type AlgorithmName } from '../../src/core/model/limits.ts'
import type { OnStoreError } from '../../src/core/model/policy.ts'
import type { Store } from '../../src/core/model/store.ts'

export const EVERY_ALGORITHM = ALGORITHM_NAMES
/** Those that hold several limits at once. */
export const TIERED_ALGORITHMS = ['sliding-window', 'sorted-set', 'fixed-window', 'quota'] as const
/** Those that hold their limits in any window whatever. */
export const EXACT_ALGORITHMS = ['sliding-window', 'sorted-set'] as const

export function createCharge(
  algorithm: AlgorithmName,
  limits: readonly Limit[],
  overrides: Partial<StoreCharge> = {},
): StoreCharge {
  const key = `test:${algorithm}:{${crypto.randomUUID()}}`
  return { key, algorithm, limits, cost: 1, mode: 'enforce', reserved: 0, ...overrides }
}

/** As large as those that a Worker draws. */
let latestSlot = 2 ** 52

/** A request for one permit, which holds its slots under a number of its own. */
export function take(rules: readonly StoreCharge[], overrides: Partial<DecisionRequest> = {}): DecisionRequest {
  const slot = ++latestSlot
  const own = rules.map((rule) => (rule.algorithm === 'concurrency' ? { ...rule, slot } : rule))
  return { action: 'take', permits: 1, charges: own, ...overrides }
}

/** Units that a rule never spent from has. */
export function findCapacity({ limits, burst }: StoreCharge): number {
  return burst ?? Math.min(...limits.map(({ limit }) => limit))
}

/** In its window, no test lasts long enough for a window to end, or for units to come back: that of 1970 ends in 2033. */
export function unhurriedMs(algorithm: AlgorithmName): number {
  return algorithm === 'fixed-window' ? 2_000_000_000_000 : 36_000_000
}

export function unhurried(algorithm: AlgorithmName, limit: number, overrides: Partial<StoreCharge> = {}): StoreCharge {
  return createCharge(algorithm, [{ limit, windowMs: unhurriedMs(algorithm) }], overrides)
}

/** Units that each rule has left in its first limit. */
export function remainingIn({ usage }: Decision): (number | undefined)[] {
  return usage.map(([limit]) => limit?.remaining)
}

/** The longest that a limit of any rule is to be waited for. */
export function retryAfterMs({ usage }: Decision): number {
  return Math.max(...usage.flat().map((limit) => limit.retryAfterMs))
}

/** A store that can do only this. */
export function storeWith(own: Partial<Store> & Pick<Store, 'decide'>): Store {
  const refuse = async () => {
    throw new Error('the test expects no such call')
  }
  return {
    kind: 'test',
    release: refuse,
    revoke: refuse,
    renew: refuse,
    settle: refuse,
    delete: refuse,
    ping: refuse,
    ...own,
  }
}

/** What a policy charges that has such a rule. */
export function withPolicy(rule: StoreCharge, onStoreError: OnStoreError = 'local'): Charge {
  const { algorithm, mode, penalty } = rule
  const limits = rule.limits.map((limit, index) => ({ ...limit, name: `limit-${index}` }))
  const policy = { name: 'policy', algorithm, limits, burst: rule.burst, penalty: penalty, mode, onStoreError }
  return { ...rule, policy, digest: rule.key }
}
