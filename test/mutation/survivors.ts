/** Changes that no test can notice, because they change nothing that anybody sees. */
export interface Survivor {
  readonly file: string
  /** The line that is changed, without its indentation. */
  readonly line: string
  /** The text that replaces a part of it; of Lua, the whole line as it then is. */
  readonly replacement: string
  readonly reason: string
}

const SURVIVORS: readonly Survivor[] = [
  {
    file: 'src/core/algorithms/corrections.ts',
    line: 'return slots?.[kind](state, slot, Math.floor(nowUs / 1000), limits[0]?.windowMs ?? 0)',
    replacement: 'limits[0].windowMs',
    reason: 'a charge has a limit; the type of an array does not say so',
  },
  {
    file: 'src/core/algorithms/decide.ts',
    line: 'return usage.every(({ remaining }, at) => remaining === limits[at]?.limit)',
    replacement: 'limits[at].limit',
    reason: 'a usage has as many entries as there are limits; the type of an array does not say so',
  },
  {
    file: 'src/core/algorithms/window-log.ts',
    line: 'ring = [0.5, 0.5]',
    replacement: '[]',
    reason: 'the first entry makes it as long',
  },
  {
    file: 'src/core/algorithms/algorithm.ts',
    line: 'const resetMs = used > limit ? freedAfterMs(used - limit + 1) : firstFreeMs',
    replacement: 'used >= limit',
    reason: 'if just all is used, the next unit is the first that is freed',
  },
  {
    file: 'src/core/algorithms/sliding-window.ts',
    line: 'return ttlMs === undefined ? { state: log } : { state: log, ttlMs }',
    replacement: 'false',
    reason: 'a time to live that is undefined is as good as none',
  },
  {
    file: 'src/core/algorithms/token-bucket.ts',
    line: 'const lack = isSameRate && leaseMs === 0 ? 0 : countLack(known, readBurst(charge), nowUs)',
    replacement: 'false',
    reason: 'spares a computation whose result is then not used',
  },
  {
    file: 'src/core/algorithms/window-log.ts',
    line: 'const freeing = used > limit ? this.#findAbove(total - limit, first, 1) : first',
    replacement: 'true',
    reason: 'spares a search, which would find the first',
  },
  {
    file: 'src/core/algorithms/window-log.ts',
    line: 'const freeing = used > limit ? this.#findAbove(total - limit, first, 1) : first',
    replacement: 'used >= limit',
    reason: 'spares a search, which would find the first',
  },
  {
    file: 'src/core/algorithms/window-log.ts',
    line: 'if (isSame && entryMs === newestMs) return undefined',
    replacement: 'false',
    reason: 'spares a division: of one time there is one epoch',
  },
  {
    file: 'src/core/algorithms/window-log.ts',
    line: 'if (this.live === this.start || this.keepsAll) return',
    replacement: 'false',
    reason: 'dropping nothing changes nothing',
  },
  {
    file: 'src/core/algorithms/window-log.ts',
    line: 'for (let at = this.start; at < this.end; at++)',
    replacement: 'at <= this.end',
    reason: 'copies a place that is free',
  },
  {
    file: 'src/core/algorithms/window-log.ts',
    line: 'const isBefore = live === this.start || this.#readDate(live - 2) <= sinceMs',
    replacement: 'false',
    reason: 'a search that begins earlier finds the same',
  },
  {
    file: 'src/core/algorithms/window-log.ts',
    line: 'const isBefore = live === this.start || this.#readDate(live - 2) <= sinceMs',
    replacement: 'live === this.start && this.#readDate(live - 2) <= sinceMs',
    reason: 'a search that begins earlier finds the same',
  },
  {
    file: 'src/core/algorithms/window-log.ts',
    line: 'const isBefore = live === this.start || this.#readDate(live - 2) <= sinceMs',
    replacement: 'this.#readDate(live - 2) < sinceMs',
    reason: 'a search that begins earlier finds the same',
  },
  {
    file: 'src/core/algorithms/window-log.ts',
    line: 'low = high + 2',
    replacement: 'high - 2',
    reason: 'a search that begins earlier finds the same',
  },
  {
    file: 'src/http/request/charge-builder.ts',
    line: 'only: by.length === 1 ? by[0]?.kind : undefined,',
    replacement: 'by[0].kind',
    reason: 'a list of one has a first; the type of an array does not say so',
  },
  {
    file: 'src/http/request/charge-builder.ts',
    line: "if (only === 'ip') return this.#readDigest(['ip', readCallerAddress(request, this.#options.ipv6Prefix)])",
    replacement: 'false',
    reason: 'a shorter way: what follows finds the same digest',
  },
  {
    file: 'src/http/request/charge-builder.ts',
    line: "if (only === 'ip') return this.#readDigest(['ip', readCallerAddress(request, this.#options.ipv6Prefix)])",
    replacement: '""',
    reason: 'a shorter way: what follows finds the same digest',
  },
  {
    file: 'src/http/request/target.ts',
    line: 'if (url.length <= MAX_PARAMETERS) return false',
    replacement: 'url.length < MAX_PARAMETERS',
    reason: 'a URL of as many characters has fewer parameters',
  },
  {
    file: 'src/http/request/target.ts',
    line: 'if (url.length <= MAX_PARAMETERS) return false',
    replacement: 'false',
    reason: 'a shorter way: what follows finds none too long',
  },
  {
    file: 'src/http/request/target.ts',
    line: 'const [prefix] = prefixes.filter((prefix) => prefix !== undefined).toSorted((a, b) => a.length - b.length)',
    replacement: 'true',
    reason: 'what is undefined is sorted to the end',
  },
  {
    file: 'src/http/request/target.ts',
    line: "return at < 0 ? undefined : canonical.slice(0, at).replace(/\\/\\.$/, '/')",
    replacement: 'at <= 0',
    reason: 'a path begins with a slash, which is no sign',
  },
  {
    file: 'src/http/request/policy/pattern.ts',
    line: 'for (let at = 0; at < Math.max(these.length, those.length); at++) {',
    replacement: 'at <= Math.max(these.length, those.length)',
    reason: 'two segments that are missing are alike',
  },
  {
    file: 'src/http/request/policy/pattern.ts',
    line: "const [these = [], those = []] = [one, other].map(({ path }) => path.toLowerCase().split('/').slice(1))",
    replacement: '["Stryker was here"]',
    reason: 'of two, both are there; the type of an array does not say so',
  },
  {
    file: 'src/http/request/policy/pattern.ts',
    line: "return one.startsWith(otherStem ?? '') || other.startsWith(stem ?? '')",
    replacement: '"Stryker was here!"',
    reason: 'of two, both are there; the type of an array does not say so',
  },
  {
    file: 'src/http/request/policy/pattern.ts',
    line: "const part = given.at(-1) ?? ''",
    replacement: '"Stryker was here!"',
    reason: 'a text that is split has a last part',
  },
  {
    file: 'src/http/request/identity/reading.ts',
    line: "const bySemicolon = text.includes(';') ? findSpellings(text.split(/[&;]/, MAX_PARAMETERS + 1), name) : byAmpersand",
    replacement: '""',
    reason: 'without a semicolon, both divide alike',
  },
  {
    file: 'src/http/request/identity/authorization.ts',
    line: "const few = base64.replaceAll('-', '').replaceAll('_', '').replaceAll('.', '')",
    replacement: '""',
    reason: 'a shorter way: the next line leaves them out as well',
  },
  {
    file: 'src/core/engine/leases/lease-call.ts',
    line: 'if (permits > 0 && !isEnded) account.add(lease)',
    replacement: 'permits >= 0',
    reason: 'an empty lease gives no permit, and the next request drops it',
  },
  {
    file: 'src/core/engine/leases/leasing.ts',
    line: `const name = (charge.cost === 1 ? '' : \`/\${charge.cost} \`) + formatStatusName(charge)`,
    replacement: 'false',
    reason: 'names differ as before: nobody reads them',
  },
  {
    file: 'src/core/engine/leases/leasing.ts',
    line: 'if (CAN_AWAIT_OTHERS) context.waitUntil(deciding.catch(() => {}))',
    replacement: 'true',
    reason: 'it is true but on Workers of before October 2024, where no mutants run',
  },
  {
    file: 'src/core/engine/places/hash-slots.ts',
    line: "const slots = isSplit ? groupBy(items, readTag) : new Map([['', items]])",
    replacement: '"Stryker was here!"',
    reason: 'one server has no slots: there, nobody reads the tag',
  },
  {
    file: 'src/core/engine/places/split-plan.ts',
    line: '!place.isNext && detectsIdentities(charge) && all.indexOf(charge) < lastSkipped',
    replacement: 'all.indexOf(charge) <= lastSkipped',
    reason: 'the last one that is skipped counts new identities, and detects none',
  },
  {
    file: 'src/core/engine/stages/pending-releases.ts',
    line: 'const untilMs = this.#now() + findLifetimeMs(limits[0]?.windowMs ?? 0)',
    replacement: 'limits[0].windowMs',
    reason: 'a charge has a limit; the type of an array does not say so',
  },
  {
    file: 'src/core/store/redis/tcp-clients.ts',
    line: 'for (const event of ends) client.once?.(event, end)',
    replacement: 'client.once(event, end)',
    reason: 'a client without events has returned before; its type does not say so here',
  },
  {
    file: 'lua/concurrency.lua',
    line: 'for i = first, math.min(first + AT_ONCE - 1, amount) do',
    replacement: 'for i = first, math.min(first + AT_ONCE + 1, amount) do',
    reason: 'a member that is removed twice is removed',
  },
  {
    file: 'lua/decide.lua',
    line: 'if plain and not KEYS[2] then',
    replacement: 'if false then',
    reason: 'a shorter way: what follows decides alike',
  },
  {
    file: 'lua/decide.lua',
    line: 'reply[left] = units > 0 and units or 0',
    replacement: 'reply[left] = units >= 0 and units or 0',
    reason: '0 is 0',
  },
  {
    file: 'lua/decide.lua',
    line: "algorithm.peek(KEYS[i], now_us, wanted + reserved, from, to, reply, policy_mode == 'penalty')",
    replacement: "algorithm.peek(KEYS[i], now_us, wanted + reserved, from, to, reply, policy_mode ~= 'penalty')",
    reason: 'changes how much is read at once, not what is decided',
  },
  {
    file: 'lua/decide.lua',
    line: "elseif fits < granted and policy_mode ~= 'shadow' then",
    replacement: "elseif fits <= granted and policy_mode ~= 'shadow' then",
    reason: 'sets a number to itself',
  },
  {
    file: 'lua/decide.lua',
    line: "if granted < 0 or granted < permits and action ~= 'take-up-to' then",
    replacement: "if granted <= 0 or granted < permits and action ~= 'take-up-to' then",
    reason: 'sets 0 to 0',
  },
  {
    file: 'lua/limit-state.lua',
    line: 'if limit.used > limit.limit then',
    replacement: 'if limit.used >= limit.limit then',
    reason: 'if just all is used, the next unit is the first that is freed',
  },
  {
    file: 'lua/sliding-window.lua',
    line: 'if n then',
    replacement: 'if false then',
    reason: 'reads again what it has read',
  },
  {
    file: 'lua/sliding-window.lua',
    line: 'if not oldest[2] then',
    replacement: 'if true then',
    reason: 'reads again what it has read',
  },
  {
    file: 'lua/sliding-window.lua',
    line: 'local is_guess = true',
    replacement: 'local is_guess = false',
    reason: 'halves first, and guesses then',
  },
  {
    file: 'lua/sorted-set.lua',
    line: 'if redis.replicate_commands then',
    replacement: 'if true then',
    reason: 'the call is protected',
  },
  {
    file: 'lua/token-bucket.lua',
    line: 'if lease_ms > 0 then',
    replacement: 'if lease_ms >= 0 then',
    reason: 'in no time, nothing is refilled',
  },
  {
    file: 'lua/token-bucket.lua',
    line: "if penalty ~= '' then",
    replacement: 'if true then',
    reason: 'of an empty text, nothing matches',
  },
  {
    file: 'lua/token-bucket.lua',
    line: 'if fraction < 0 then',
    replacement: 'if fraction <= 0 then',
    reason: 'a microsecond less and a whole one more',
  },
]

export function isNamed(file: string, line: string, replacement: string | undefined): boolean {
  return SURVIVORS.some((one) => one.file === file && one.line === line && one.replacement === replacement)
}
