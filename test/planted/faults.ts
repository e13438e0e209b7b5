export interface Fault {
  readonly name: string
  readonly file: string
  /** Stands in the file once. */
  readonly find: string
  readonly replace: string
}

/** Mistakes that somebody could make, one of each kind that would hurt most. */
export const FAULTS: readonly Fault[] = [
  {
    name: 'window-off-by-one',
    file: 'lua/sliding-window.lua',
    find: 'local since = now - window',
    replace: 'local since = now - window + 1',
  },
  {
    name: 'lost-ttl',
    file: 'lua/sliding-window.lua',
    find: "    call('EXPIRE', key, ('%d'):format(math.ceil((end_ms - now) / 1000)))",
    replace: '    local _ = end_ms',
  },
  {
    name: 'charged-twice',
    file: 'lua/decide.lua',
    find: 'plain.commit(key, state, granted, now_us, lease_ms)',
    replace: 'plain.commit(key, state, 2 * granted, now_us, lease_ms)',
  },
  {
    name: 'refusal-charges',
    file: 'lua/decide.lua',
    find: "if granted > 0 and action ~= 'peek' then\n  for i = 1, #KEYS do",
    replace: "if action ~= 'peek' then\n  granted = math.max(granted, 1)\n  for i = 1, #KEYS do",
  },
  {
    name: 'lease-too-long',
    file: 'src/core/engine/stages/leasing.ts',
    find: 'const expiresAtMs = sentAtMs + findUsableMs(charge, statuses, leaseMs, sentAtMs)',
    replace: 'const expiresAtMs = sentAtMs + findUsableMs(charge, statuses, leaseMs, sentAtMs) + 1',
  },
  {
    name: 'lease-four-times-too-long',
    file: 'src/core/engine/stages/leasing.ts',
    find: 'const expiresAtMs = sentAtMs + findUsableMs(charge, statuses, leaseMs, sentAtMs)',
    replace: 'const expiresAtMs = sentAtMs + 4 * findUsableMs(charge, statuses, leaseMs, sentAtMs)',
  },
  {
    name: 'own-permit-leased-too',
    file: 'src/core/engine/stages/leasing.ts',
    find: 'const used = Math.min(isJoint ? own : needed, granted)',
    replace: 'const used = Math.min(isJoint ? 0 : needed, granted)',
  },
  {
    name: 'permit-given-back-twice',
    file: 'src/core/engine/stages/lease-account.ts',
    find: '    lease.permits++',
    replace: '    lease.permits += 2',
  },
  {
    name: 'case-not-folded',
    file: 'src/http/request/policy/canonical-path.ts',
    find: "return decodeLetters(path).toLowerCase().toUpperCase().replaceAll('\\u0307', '')",
    replace: 'return decodeLetters(path)',
  },
  {
    name: 'override-ignored',
    file: 'src/gateway/rules/override.ts',
    find: "if (resolved && 'limits' in resolved) return withLimits(charge, resolved.limits)",
    replace: "if (resolved && 'limits' in resolved) return charge",
  },
  {
    name: 'slot-kept',
    file: 'src/http/response/meter.ts',
    find: 'await hold?.release()',
    replace: 'void hold',
  },
  {
    name: 'token-logged',
    file: 'src/gateway/app/proxy.ts',
    find: "log('error', { event: 'upstream_unreachable', upstream })",
    replace: "log('error', { event: 'upstream_unreachable', error: String(request.raw.headers.get('Authorization')) })",
  },
  {
    name: 'counter-off-by-one',
    file: 'src/gateway/statistics/minute.ts',
    find: 'this.add(COUNT_NAMES.requests[toOutcome(verdict)])',
    replace:
      "this.add(COUNT_NAMES.requests[toOutcome(verdict)])\n    if (verdict.outcome === 'limited') this.add(COUNT_NAMES.requests.limited)",
  },
  {
    name: 'local-share-without-room',
    file: 'src/core/engine/engine.ts',
    find: 'Math.max(Math.floor(units * share), charge.cost + reserved)',
    replace: 'Math.max(Math.floor(units * share), charge.cost)',
  },
  {
    name: 'orphaned-new-identity',
    file: 'src/core/store/durable-object/limit-machine.ts',
    find: "overdue: { unknown: 'unknown',  unconfirmed: 'void', ",
    replace: "overdue: { unknown: 'unknown',  unconfirmed: 'reserved', ",
  },
  {
    name: 'breaker-counts-late-results',
    file: 'src/core/engine/stages/circuit-breaker.ts',
    find: 'if (phase !== this.#phase) return',
    replace: 'if (phase === undefined) return',
  },
  {
    name: 'refusal-cached-too-long',
    file: 'src/core/engine/stages/refusal-memory.ts',
    find: 'return nowMs >= receivedAtMs && nowMs < untilMs',
    replace: 'return nowMs >= receivedAtMs && nowMs <= untilMs',
  },
  {
    name: 'refusal-limit-without-end',
    file: 'src/core/engine/stages/refusal-memory.ts',
    find: 'return nowMs >= this.#startMs && nowMs < this.spanEndMs ? this.#calls : 0',
    replace: 'return nowMs >= this.#startMs ? this.#calls : 0',
  },
  {
    name: 'mirror-charges-one-permit',
    file: 'src/core/engine/stages/mirror.ts',
    find: 'permits: decision.granted,',
    replace: 'permits: 1,',
  },
  {
    name: 'hash-slot-settled-at-another-time',
    file: 'src/core/engine/stages/hash-slots.ts',
    find: 'node.settle(own, times.findEarliest(own, chargedAtMs))',
    replace: 'node.settle(own, chargedAtMs)',
  },
  {
    name: 'moving-identity-not-charged-in-both',
    file: 'src/core/engine/stages/shards.ts',
    find: 'const moving = isMoving ? [...groupBy(items.filter(moves), findNext)] : []',
    replace: 'const moving: [(typeof next)[number], T[]][] = []',
  },
  {
    name: 'next-shard-tells-new-identities',
    file: 'src/core/engine/stages/split-decision.ts',
    find: '!place.isNext && detectsIdentities(charge)',
    replace: 'detectsIdentities(charge)',
  },
  {
    name: 'store-failure-uncounted',
    file: 'src/gateway/statistics/recorder.ts',
    find: 'this.#findMinute().addStoreFailure()',
    replace: 'this.#findMinute()',
  },
  {
    name: 'lost-answer-sent-again',
    file: 'src/core/store/redis/redis-calls.ts',
    find: 'if (deadline.hasPassed || !this.#isAnswer(error, /^NOSCRIPT\\b/)) throw error',
    replace: 'if (deadline.hasPassed) throw error',
  },
  {
    name: 'overridden-plan-not-told',
    file: 'src/gateway/callers/caller-charges.ts',
    find: 'return { ...charge, ...terms, planName, isAssumed: true }',
    replace: 'return { ...charge, ...terms, planName, isAssumed: false }',
  },
  {
    name: 'shadow-said-to-refuse',
    file: 'src/gateway/admin/next-request.ts',
    find: 'return retryAfterMs > 0 && !unlimited && !shadow',
    replace: 'return retryAfterMs > 0 && !unlimited && shadow !== undefined',
  },
  {
    name: 'shadowed-block-said-to-refuse',
    file: 'src/gateway/admin/next-request.ts',
    find: 'if (blocked && !blocked.shadow)',
    replace: 'if (blocked)',
  },
  {
    name: 'lost-rules-said-to-be-none',
    file: 'src/gateway/rules/live-rules-engine.ts',
    find: "this.#state = { kind: 'lost' }",
    replace: "this.#state = { kind: 'deployed' }",
  },
  {
    name: 'edit-ends-lost-rules',
    file: 'src/gateway/admin/change-rules.ts',
    find: 'const old = lost ?? parseStored(before, replacesAll)',
    replace: 'const old = parseStored(before, replacesAll)',
  },
  {
    name: 'slow-store-said-to-be-well',
    file: 'src/gateway/app/health.ts',
    find: "(rttMs ?? 0) > timeoutMs ? 'slow' : 'answers'",
    replace: "(rttMs ?? 0) > 1_000 * timeoutMs ? 'slow' : 'answers'",
  },
  {
    name: 'idle-circuit-stays-open',
    file: 'src/core/engine/engine.ts',
    find: '    this.#breaker?.halfOpen()\n',
    replace: '',
  },
  {
    name: 'unknown-network-said-to-be-none',
    file: 'src/gateway/rules/rule-effects.ts',
    find: "parseKnownBy(rule.cidr === undefined ? (rule.by ?? '') : 'ip')",
    replace: "parseKnownBy(rule.by ?? '')",
  },
  {
    name: 'top-without-rules',
    file: 'src/command/top/key-watch.ts',
    find: 'const { charges, blocked } = await applyRules([before])',
    replace: 'const { blocked } = await applyRules([before])\n  const charges = [before]',
  },
  {
    name: 'loading-said-to-be-well',
    file: 'dashboard/signs.ts',
    find: "{ name: 'Statistics', tone: 'unknown',",
    replace: "{ name: 'Statistics', tone: 'plain',",
  },
  {
    name: 'used-cut-at-a-lowered-limit',
    file: 'src/gateway/callers/caller-charges.ts',
    find: 'const used = Math.max(limit - remaining, room - (roomy[other]?.[at]?.remaining ?? room))',
    replace: 'const used = limit - remaining',
  },
]
