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
    file: 'src/core/engine/stages/leases.ts',
    find: 'const expiresAtMs = sentAtMs + findUsableMs(request, leaseMs, sentAtMs)',
    replace: 'const expiresAtMs = sentAtMs + findUsableMs(request, leaseMs, sentAtMs) + 1',
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
    file: 'src/http/response/hold-until-end.ts',
    find: 'context.waitUntil(ended.then(() => hold.release()))',
    replace: 'context.waitUntil(ended)',
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
]
