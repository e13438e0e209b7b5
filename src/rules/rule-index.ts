import type { MatchedRules } from '../engine/limiter.ts'
import type { RequestCharge } from '../model/charge.ts'
import type { Limit } from '../model/limits.ts'
import type { IdentitySource, Reading, RequestPolicy } from '../model/policy.ts'
import type { Blocked } from '../model/verdict.ts'
import { type Caller, createClaimReader, createRequest, NO_RESPONSE } from '../request/caller/caller.ts'
import type { ClaimReader } from '../request/identity/claims.ts'
import { createDigest } from '../request/identity/digest.ts'
import { foldReading } from '../request/identity/fold.ts'
import { callerAddress, readIdentitySource } from '../request/identity/identify.ts'
import { AMBIGUOUS } from '../request/identity/reading.ts'
import { formatSource, isInBody, isShared } from '../request/identity/source.ts'
import type { ReceivedRequest } from '../request/received-request.ts'
import type { CallContext } from '../runtime/call-context.ts'
import { TextLru } from '../runtime/lru.ts'
import type { Block, Override, Rules } from './document.ts'
import { IdentityIndex } from './identity-index.ts'
import { Networks } from './networks.ts'
import { resolveOverride, withLimits } from './override.ts'
import { findPossibleTokens, findPossibleValues, isInFields, readAtOnce } from './possible-values.ts'
import { parseKnownBy, type RuleTarget } from './target.ts'

export interface RuleIndexOptions {
  readonly ipv6Prefix: number
  readonly identitySecret: string | undefined
  /** Left out: no token can be verified. */
  readonly readClaim?: ClaimReader | undefined
  /** Of callers that the limiter has met; left out, of none. */
  readonly digestsOfTokens?: Pick<TextLru<string>, 'get'>
}

type Context = Pick<CallContext, 'waitUntil'>

/** One line of the rules, ready to be found. */
type Entry = { readonly untilMs: number; readonly isWildcard: boolean } & (
  | { readonly kind: 'block'; readonly block: Block }
  | { readonly kind: 'allow' }
  | { readonly kind: 'override'; readonly override: Override }
)

type OverrideEntry = Extract<Entry, { kind: 'override' }>

const NOTHING: readonly Entry[] = []

/**
 * Blocks, allows and overrides, ready to be looked up: a few steps for each way in which the rules name callers, however
 * many they name.
 */
export class RuleIndex {
  readonly #ipv6Prefix: number
  readonly #readClaim: ClaimReader | undefined
  readonly #digest: (parts: readonly string[]) => string
  readonly #knownBy: readonly IdentityIndex<Entry>[]
  readonly #byAddress: IdentityIndex<Entry> | undefined
  readonly #bare = new Map<string, Entry[]>()
  #hasBareBlocks = false
  readonly #networks = new Networks<Entry>()
  readonly #digestsOfTokens: Pick<TextLru<string>, 'get'> | undefined
  /** What was found for addresses of IPv6, which take time to be read. */
  readonly #ofAddresses = new TextLru<readonly Entry[]>()
  /** What callers are known by who are kept out. */
  readonly #keepsOut = new Set<IdentityIndex<Entry>>()
  readonly #countries = new Map<unknown, Entry[]>()
  readonly #asns = new Map<unknown, Entry[]>()

  constructor({ blocks, allows, overrides }: Rules, options: RuleIndexOptions) {
    const { ipv6Prefix, identitySecret, readClaim, digestsOfTokens } = options
    this.#digestsOfTokens = digestsOfTokens
    this.#ipv6Prefix = ipv6Prefix
    this.#digest = createDigest(identitySecret)
    this.#readClaim = readClaim
    const knownBy = new Map<string, IdentityIndex<Entry>>()
    const add = ({ until, ...target }: RuleTarget & Pick<Block, 'until'>, what: Kind): void => {
      const untilMs = until === undefined ? Number.POSITIVE_INFINITY : Date.parse(until)
      this.#add(target, { ...what, untilMs, isWildcard: target.value !== undefined }, knownBy, identitySecret)
    }
    for (const block of blocks) add(block, { kind: 'block', block })
    for (const allow of allows) add(allow, { kind: 'allow' })
    for (const override of overrides) add(override, { kind: 'override', override })
    this.#byAddress = knownBy.get('ip')
    this.#knownBy = [...knownBy.values()].filter((known) => known !== this.#byAddress)
  }

  /**
   * What is ordered for a request; undefined if nothing is.
   * @param nowMs milliseconds since the Unix epoch
   */
  ordersFor(request: ReceivedRequest, nowMs: number, context: Context): Found | Promise<Found> {
    let found = this.#ofPlace(request, nowMs)
    for (let index = 0; index < this.#knownBy.length; index++) {
      const entries = this.#of(this.#knownBy[index] as IdentityIndex<Entry>, request, context)
      if (entries instanceof Promise) return this.#goOn(request, nowMs, context, found, index, entries)
      found = withCurrent(found, entries, nowMs)
    }
    return this.#orders(request, found, nowMs, context)
  }

  /** Where a source takes time to be read, the rest is read after it. */
  async #goOn(
    request: ReceivedRequest,
    nowMs: number,
    context: Context,
    before: readonly Entry[],
    from: number,
    first: Promise<readonly Entry[]>,
  ): Promise<Found> {
    let found = withCurrent(before, await first, nowMs)
    for (const knownBy of this.#knownBy.slice(from + 1)) {
      found = withCurrent(found, await this.#of(knownBy, request, context), nowMs)
    }
    return this.#orders(request, found, nowMs, context)
  }

  #of(
    knownBy: IdentityIndex<Entry>,
    request: ReceivedRequest,
    context: Context,
  ): readonly Entry[] | Promise<readonly Entry[]> {
    const { source } = knownBy
    const digest = source.kind === 'token' ? this.#knownDigest(request) : undefined
    if (digest !== undefined) return knownBy.ofDigest(digest)
    const reading = readAtOnce(source, {
      ...{ request, route: '', ipv6Prefix: this.#ipv6Prefix },
      readClaim: (path) => this.#readClaim?.(path, request.headers.get('Authorization'), context) ?? AMBIGUOUS,
    })
    const ofReading = (reading: Reading) => {
      if (reading.kind !== 'spoilt') return ofValue(knownBy, reading)
      if (source.kind === 'claim') return this.#blocksInTokens(knownBy, source.path, request, context)
      return this.#blocksIn(knownBy, request)
    }
    return reading instanceof Promise ? reading.then(ofReading) : ofReading(reading)
  }

  /** Of a token that the limiter has read before. */
  #knownDigest({ headers }: ReceivedRequest): string | undefined {
    const field = this.#digestsOfTokens && headers.get('Authorization')
    return field ? this.#digestsOfTokens?.get(field) : undefined
  }

  #add(
    target: RuleTarget,
    entry: Entry,
    knownBy: Map<string, IdentityIndex<Entry>>,
    identitySecret: string | undefined,
  ): void {
    const { by, digest, cidr, country, asn } = target
    if (cidr !== undefined) this.#networks.add(cidr, entry)
    if (country !== undefined) push(this.#countries, country, entry)
    if (asn !== undefined) push(this.#asns, asn, entry)
    if (by === undefined) {
      if (digest === undefined) return
      push(this.#bare, digest, entry)
      this.#hasBareBlocks ||= isBlock(entry)
      return
    }
    const known = knownBy.get(by) ?? new IdentityIndex<Entry>(parseKnownBy(by) as IdentitySource, identitySecret)
    knownBy.set(by, known)
    known.add(target, entry)
    if (entry.kind === 'block') this.#keepsOut.add(known)
  }

  #ofPlace(request: ReceivedRequest, nowMs: number): readonly Entry[] {
    let found = NOTHING
    if (this.#byAddress || !this.#networks.isEmpty) found = withCurrent(found, this.#ofAddress(request), nowMs)
    if (this.#countries.size > 0 || this.#asns.size > 0) {
      const { country, asn } = (request.cf ?? {}) as { country?: unknown; asn?: unknown }
      found = withCurrent(found, this.#countries.get(country) ?? NOTHING, nowMs)
      found = withCurrent(found, this.#asns.get(asn) ?? NOTHING, nowMs)
    }
    return found
  }

  #ofAddress(request: ReceivedRequest): readonly Entry[] {
    const said = readAddress(request)
    if (!said) return NOTHING
    // Others are read at once.
    const takesTime = said.includes(':')
    let found = takesTime ? this.#ofAddresses.get(said) : undefined
    if (!found) {
      const single =
        this.#byAddress?.of(callerAddress({ headers: request.headers, address: said }, this.#ipv6Prefix)) ?? NOTHING
      const networks = this.#networks.of(said.trim())
      found = single.length === 0 ? networks : [...single, ...networks]
      if (takesTime) this.#ofAddresses.set(said, found)
    }
    return found
  }

  /** Of whatever a spoilt value may be taken for, only what keeps callers out. */
  #blocksIn(knownBy: IdentityIndex<Entry>, request: ReceivedRequest): readonly Entry[] {
    if (!this.#keepsOut.has(knownBy)) return NOTHING
    return findPossibleValues(knownBy.source, request).flatMap((value) => knownBy.of(value).filter(isBlock))
  }

  /** The same for claims, where the field is not that of one token, or that is none. */
  async #blocksInTokens(
    knownBy: IdentityIndex<Entry>,
    path: readonly string[],
    request: ReceivedRequest,
    context: Context,
  ): Promise<readonly Entry[]> {
    if (!this.#keepsOut.has(knownBy)) return NOTHING
    const claims = await Promise.all(this.#claimsIn(path, request, context))
    return claims.flatMap((reading) => ofValue(knownBy, reading).filter(isBlock))
  }

  /** A claim of each token that some API may find in a field that is not that of one token. Each is verified. */
  #claimsIn(path: readonly string[], { headers }: ReceivedRequest, context: Context): (Reading | Promise<Reading>)[] {
    const readClaim = this.#readClaim
    const field = headers.get('Authorization')
    if (!readClaim || !field) return []
    const words = field.trim().split(/\s+/, 3)
    // What stands where a token belongs has been verified before.
    const known = words.length < 3 ? words.at(-1) : undefined
    const tokens = findPossibleTokens(field).filter((token) => token !== known)
    // Of one context, one token is verified.
    return tokens.map((token) => readClaim(path, `Bearer ${token}`, { waitUntil: (work) => context.waitUntil(work) }))
  }

  #orders(request: ReceivedRequest, found: readonly Entry[], nowMs: number, context: Context): Found {
    const decided = pickDecisiveRule(found)
    if (decided?.kind === 'block') return blocked(decided.block, decided.untilMs)
    const isAllowed = decided !== undefined
    const overrides = sortOverrides(found)
    if (this.#bare.size > 0) {
      return { isAllowed, apply: (charges) => this.#applyBare(request, charges, isAllowed, overrides, nowMs, context) }
    }
    if (!isAllowed && overrides.length === 0) return undefined
    return { isAllowed, apply: (charges) => applyOverrides(charges, isAllowed, overrides) }
  }

  /** Where a policy counts by one value, and that is spoilt. */
  #bareBlocksIn(
    { by, fold }: RequestPolicy,
    request: ReceivedRequest,
    context: Context,
  ): readonly Entry[] | Promise<readonly Entry[]> {
    const [source] = by
    if (!source || by.length > 1) return NOTHING
    const name = formatSource(source)
    const blocksOf = (value: string): readonly Entry[] => {
      const folded = fold === undefined ? undefined : foldReading(source, value, fold)
      const digest = this.#digest([name, folded?.kind === 'value' ? folded.value : value])
      return (this.#bare.get(digest) ?? NOTHING).filter(isBlock)
    }
    if (source.kind === 'claim') {
      const claims = this.#claimsIn(source.path, request, context)
      if (claims.length === 0) return NOTHING
      return Promise.all(claims).then((all) =>
        all.flatMap((reading) => (reading.kind === 'value' ? blocksOf(reading.value) : NOTHING)),
      )
    }
    if (!isInFields(source)) return NOTHING
    if (source.kind === 'token' && this.#knownDigest(request) !== undefined) return NOTHING
    const reading = readAtOnce(source, { request, route: '', ipv6Prefix: this.#ipv6Prefix })
    if (!('kind' in reading) || reading.kind !== 'spoilt') return NOTHING
    return findPossibleValues(source, request).flatMap(blocksOf)
  }

  /** A digest without what it is made of names a caller wherever a policy counts by that. */
  #applyBare(
    request: ReceivedRequest,
    charges: readonly RequestCharge[],
    isAllowed: boolean,
    overrides: readonly OverrideEntry[],
    nowMs: number,
    context: Context,
  ): ReturnType<MatchedRules['apply']> {
    let found = NOTHING
    const later: Promise<readonly Entry[]>[] = []
    for (const { policy, digest } of charges) {
      // What is meant for one caller must not hold for everyone.
      if (isShared(policy.by)) continue
      found = withCurrent(found, this.#bare.get(digest) ?? NOTHING, nowMs)
      if (!this.#hasBareBlocks || isAllowed) continue
      const blocks = this.#bareBlocksIn(policy, request, context)
      if (blocks instanceof Promise) later.push(blocks)
      else found = withCurrent(found, blocks, nowMs)
    }
    if (later.length === 0) return this.#conclude(request, charges, isAllowed, overrides, found, nowMs)
    return Promise.all(later).then((blocks) =>
      this.#conclude(request, charges, isAllowed, overrides, withCurrent(found, blocks.flat(), nowMs), nowMs),
    )
  }

  #conclude(
    request: ReceivedRequest,
    charges: readonly RequestCharge[],
    isAllowed: boolean,
    overrides: readonly OverrideEntry[],
    found: readonly Entry[],
    nowMs: number,
  ): ReturnType<MatchedRules['apply']> {
    const decided = isAllowed ? undefined : pickDecisiveRule(found)
    if (decided?.kind === 'block') return blocked(decided.block, decided.untilMs)
    const isLetIn = isAllowed || decided !== undefined
    const ordered = isLetIn || found.length > 0 || overrides.length > 0
    const result = ordered ? applyOverrides(charges, isLetIn, [...sortOverrides(found), ...overrides]) : charges
    const inBodies = isLetIn ? [] : charges.flatMap(({ policy }) => policy.by.filter(isInBody))
    return inBodies.length > 0 && this.#holdsBareBlock(nowMs) ? this.#unlessSpoilt(result, inBodies, request) : result
  }

  #holdsBareBlock(nowMs: number): boolean {
    if (!this.#hasBareBlocks) return false
    return [...this.#bare.values()].some((entries) => entries.some((entry) => isBlock(entry) && nowMs < entry.untilMs))
  }

  /** A caller that is blocked may be in a body that only some APIs can read, and nobody can look it up there. */
  async #unlessSpoilt(
    charges: readonly RequestCharge[],
    sources: readonly IdentitySource[],
    request: ReceivedRequest,
  ): Promise<readonly RequestCharge[] | Blocked> {
    for (const source of sources) {
      const reading = await readIdentitySource(source, { request, route: '', ipv6Prefix: this.#ipv6Prefix })
      // Whose block it is, if anybody's, is not known, and so neither is its reason.
      if (reading.kind === 'spoilt') return { kind: 'blocked', status: 403 }
    }
    return charges
  }
}

export type Found = MatchedRules | Blocked | undefined

type Kind = { kind: 'block'; block: Block } | { kind: 'allow' } | { kind: 'override'; override: Override }

/** Allows go before blocks: an operator lets some in of those that are kept out. */
function pickDecisiveRule(found: readonly Entry[]): Exclude<Entry, OverrideEntry> | undefined {
  let block: Extract<Entry, { kind: 'block' }> | undefined
  for (const entry of found) {
    if (entry.kind === 'allow') return entry
    // The longest one, for it is when it ends that the caller is told.
    if (entry.kind === 'block' && (!block || entry.untilMs > block.untilMs)) block = entry
  }
  return block
}

/** Those that name the caller itself before those that name many. */
function sortOverrides(found: readonly Entry[]): readonly OverrideEntry[] {
  const overrides = found.filter((entry) => entry.kind === 'override')
  if (overrides.length < 2) return overrides
  return [...overrides.filter(({ isWildcard }) => !isWildcard), ...overrides.filter(({ isWildcard }) => isWildcard)]
}

function blocked({ status = 403, reason }: Block, untilMs: number): Blocked {
  return {
    ...{ kind: 'blocked', status },
    ...(reason !== undefined && { reason }),
    ...(untilMs < Number.POSITIVE_INFINITY && { untilMs }),
  }
}

/** Applies to each charge the first override that is about its policy. */
function applyOverrides(
  charges: readonly RequestCharge[],
  isAllowed: boolean,
  overrides: readonly OverrideEntry[],
): readonly RequestCharge[] {
  return charges.map((charge) => {
    if (isAllowed) return withoutLimit(charge)
    for (const { override } of overrides) {
      if (override.unlimited) {
        if (override.policies?.includes(charge.policy.name) ?? true) return withoutLimit(charge)
        continue
      }
      const tiers = tiersUnder(override, charge.policy, charge.tiers)
      if (tiers) return withLimits(charge, tiers)
    }
    return charge
  })
}

/** Without its penalties, too: those of before end. */
function withoutLimit({ block: _, ...charge }: RequestCharge): RequestCharge {
  return { ...charge, enforced: false, isUnlimited: true }
}

const TIERS_UNDER = new WeakMap<Override, Map<readonly Limit[], readonly Limit[] | undefined>>()

/** Read once for each override that is used, and the tiers that it replaces. */
function tiersUnder(override: Override, policy: RequestPolicy, tiers: readonly Limit[]): readonly Limit[] | undefined {
  let known = TIERS_UNDER.get(override)
  if (!known) {
    known = new Map()
    TIERS_UNDER.set(override, known)
  }
  if (!known.has(tiers)) {
    const made = resolveOverride(override, policy, tiers)
    known.set(tiers, made && 'tiers' in made ? made.tiers : undefined)
  }
  return known.get(tiers)
}

function ofValue(knownBy: IdentityIndex<Entry>, reading: Reading): readonly Entry[] {
  return reading.kind === 'value' ? knownBy.of(reading.value) : NOTHING
}

function isBlock({ kind }: Entry): boolean {
  return kind === 'block'
}

function readAddress({ address, headers }: ReceivedRequest): string | null {
  return address === undefined ? headers.get('CF-Connecting-IP') : address
}

function withCurrent(found: readonly Entry[], more: readonly Entry[], nowMs: number): readonly Entry[] {
  if (more.length === 0) return found
  return [...found, ...more.filter(({ untilMs }) => nowMs < untilMs)]
}

function push<Key>(map: Map<Key, Entry[]>, key: Key, entry: Entry): void {
  const others = map.get(key)
  if (others) others.push(entry)
  else map.set(key, [entry])
}

/** What the rules order for a caller. */
export interface CallerRules {
  /** Undefined: it is let in, as far as it is known. */
  readonly blocked: Blocked | undefined
  /** The charges under the rules, in order. */
  readonly charges: readonly RequestCharge[]
}

/**
 * What the rules order for a caller of whom something is known, or only the digest.
 * @param charges of this caller @param nowMs milliseconds since the Unix epoch
 * @throws {CallerError} if there is no such caller
 */
export async function applyRulesToCaller(
  rules: Rules,
  { caller, digest }: { readonly caller: Caller; readonly digest?: string | undefined },
  charges: readonly RequestCharge[],
  options: Omit<RuleIndexOptions, 'readClaim'>,
  nowMs: number,
): Promise<CallerRules> {
  const known = digest === undefined ? rules : nameBareDigest(rules, digest)
  const rulebook = new RuleIndex(known, { ...options, readClaim: createClaimReader(caller.claim) })
  const orders = await rulebook.ordersFor(createRequest(caller), nowMs, NO_RESPONSE)
  if (!orders) return { blocked: undefined, charges }
  const applied = 'kind' in orders ? orders : await orders.apply(charges)
  return 'kind' in applied ? { blocked: applied, charges } : { blocked: undefined, charges: applied }
}

/** Of whom only the digest is known, nothing can be read again: what names it holds, whatever it is a digest of. */
function nameBareDigest(rules: Rules, digest: string): Rules {
  const named = <Entry extends RuleTarget>(entries: readonly Entry[]) =>
    entries.map((entry) => (entry.digest === digest ? { ...entry, by: undefined } : entry))
  return { ...rules, blocks: named(rules.blocks), allows: named(rules.allows), overrides: named(rules.overrides) }
}
