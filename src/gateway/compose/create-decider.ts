/** Creates what decides requests: the stages around the store, and the rules. */
import { createEarlyRefusals } from '../../core/engine/refusals/early-refusals.ts'
import { UpstreamHealth } from '../../core/shedding/upstream-health.ts'
import { isRefusedEarly } from '../../http/request/charge-builder.ts'
import { type ComposedLimiter, composeLimiter, type RequestLimiter } from '../../http/request/request-limiter.ts'
import { createSettlement } from '../../http/request/settlement.ts'
import type { DecisionHook } from '../app/app.ts'
import type { LiveRulesEngine } from '../rules/live-rules-engine.ts'
import type { Stores } from './open-stores.ts'
import type { Setting } from './setting.ts'

export interface Decider {
  readonly composed: ComposedLimiter
  readonly rulesEngine: LiveRulesEngine | undefined
  /** Decides by the rules, if there are any. */
  readonly limiter: LiveRulesEngine | RequestLimiter
  readonly health: UpstreamHealth | undefined
  readonly watch: DecisionHook | undefined
}

export async function createDecider(setting: Setting, stores: Stores): Promise<Decider> {
  const { env, config, host, clocks, log } = setting
  const { backend, mirror, store, recorder, readClaim } = stores
  const { policies, rules, keyPrefix, ipv6Prefix, identitySecret, mergesParameters, exempt, localShare } = config
  const { now, readSteadyMs = now } = clocks
  const health = config.isShedding ? new UpstreamHealth(readSteadyMs, host.drawNumber) : undefined
  const watch = host.createWatch?.(recorder)
  // Runtime rules and questions for decisions may bring any policy.
  const isEarly = rules !== undefined || config.decideToken !== undefined || policies.some(isRefusedEarly)
  const leases = config.leases
    ? (await import('../../core/engine/leases/with-leases.ts')).withLeases(config.leases)
    : undefined
  const composed = composeLimiter({
    ...{ policies, keyPrefix, ipv6Prefix, identitySecret, mergesParameters, exempt, localShare },
    ...{ ...clocks, store, log, leases, readClaim, health, createSettlement },
    drawSlot: host.drawNumber,
    storeTimeoutMs: config.storeTimeoutMs,
    repeats: isEarly ? createEarlyRefusals : 'certain',
    watch: watch ?? recorder,
  })
  const rulesEngine = rules
    ? await (await import('../rules/open-rules.ts')).openRules({
        ...{ rules, config, env, backend, mirror, composed, readClaim, now, log },
      })
    : undefined
  return { composed, rulesEngine, limiter: rulesEngine ?? composed.limiter, health, watch }
}
