import type { Rule, Tier } from '../limit/rule.ts'
import type { Asked, Blocked, Ordered, Orders } from '../limiter/orders.ts'
import type { ClaimReader } from '../request/identity/claims.ts'
import { createDigest } from '../request/identity/digest.ts'
import { read } from '../request/identity/identify.ts'
import { type Reading, SPOILT } from '../request/identity/reading.ts'
import type { Source } from '../request/identity/source.ts'
import type { Policy } from '../request/policy/policy.ts'
import type { ReceivedRequest } from '../request/received-request.ts'
import { Remembered } from '../request/remembered.ts'
import type { CallContext } from '../store/call-context.ts'
import type { Block, Override, Rules } from './document.ts'
import { Networks } from './networks.ts'
import { otherLimits, withLimits } from './other-limits.ts'
import { isInFields, tokensIn, valuesIn } from './spoilt.ts'
import { nameOfSource, parseKnownBy } from './target.ts'
import { Wildcards } from './wildcards.ts'

export interface RulebookOptions {
  readonly ipv6Prefix: number
  readonly identitySecret: string | undefined
  /** Left out: no token can be verified. */
  readonly readClaim?: ClaimReader | undefined
}

type Context = Pick<CallContext, 'waitUntil'>

/** One line of the rules, ready to be found. */
type Entry = { readonly untilMs: number; readonly isWildcard: boolean } & (
  | { readonly kind: 'block'; readonly block: Block }
  | { readonly kind: 'allow' }
  | { readonly kind: 'override'; readonly override: Override }
)

type OverrideEntry = Extract<Entry, { kind: 'override' }>

/** What the rules say of callers that are known by one source. */
interface KnownBy {
  readonly source: Source
  readonly name: string
  readonly byDigest: Map<string, Entry[]>
  readonly wildcards: Wildcards<Entry>
  /** Whether any of it keeps callers out. */
  hasBlocks: boolean
  /** What was found for a field, or else a value, so that it is read and digested once. */
  readonly found: Remembered<readonly Entry[]>
}

const NOTHING: readonly Entry[] = []

/**
 * Blocks, allows and overrides, ready to be looked up: a few steps for each way in which the rules name callers, however
 * many they name.
 */
export class Rulebook {
  readonly #ipv6Prefix: number
  readonly #readClaim: ClaimReader | undefined
  readonly #digest: (parts: readonly string[]) => string
  readonly #knownBy: readonly KnownBy[]
  readonly #bare = new Map<string, Entry[]>()
  readonly #networks = new Networks<Entry>()
  readonly #inNetworks = new Remembered<readonly Entry[]>()
  readonly #countries = new Map<unknown, Entry[]>()
  readonly #asns = new Map<unknown, Entry[]>()

  constructor({ blocks, allows, overrides }: Rules, { ipv6Prefix, identitySecret, readClaim }: RulebookOptions) {
    this.#ipv6Prefix = ipv6Prefix
    this.#digest = createDigest(identitySecret)
    this.#readClaim = readClaim
    const knownBy = new Map<string, KnownBy>()
    const add = (target: Block, said: Pick<Block, 'until'>, what: Kind): void => {
      const untilMs = said.until === undefined ? Number.POSITIVE_INFINITY : Date.parse(said.until)
      this.#add(target, { ...what, untilMs, isWildcard: target.value !== undefined }, knownBy)
    }
    for (const block of blocks) add(block, block, { kind: 'block', block })
    for (const allow of allows) add(allow, allow, { kind: 'allow' })
    for (const override of overrides) add(override, override, { kind: 'override', override })
    this.#knownBy = [...knownBy.values()]
  }

  /**
   * What is ordered for a request; undefined if nothing is.
   * @param nowMs milliseconds since the Unix epoch
   */
  ordersFor(request: ReceivedRequest, nowMs: number, context: Context): Found | Promise<Found> {
    let found = this.#ofPlace(request, nowMs)
    for (let index = 0; index < this.#knownBy.length; index++) {
      const entries = this.#of(this.#knownBy[index] as KnownBy, request, context)
      if (entries instanceof Promise) return this.#goOn(request, nowMs, context, found, index, entries)
      found = withCurrent(found, entries, nowMs)
    }
    return this.#orders(request, found, nowMs)
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
    return this.#orders(request, found, nowMs)
  }

  #of(knownBy: KnownBy, request: ReceivedRequest, context: Context): readonly Entry[] | Promise<readonly Entry[]> {
    const field = fieldOf(knownBy.source, request)
    if (field === null) return NOTHING
    const known = field === undefined ? undefined : knownBy.found.get(field)
    if (known) return known
    const reading = read(knownBy.source, {
      ...{ request, route: '', ipv6Prefix: this.#ipv6Prefix },
      readClaim: (path) => this.#readClaim?.(path, request.headers.get('Authorization'), context) ?? SPOILT,
    })
    if (reading instanceof Promise) return reading.then((later) => this.#ofValue(knownBy, later))
    const { source, hasBlocks } = knownBy
    if (source.kind === 'claim' && reading.kind === 'spoilt') {
      return hasBlocks && this.#readClaim ? this.#blocksInTokens(knownBy, source.path, request, context) : NOTHING
    }
    if (field === undefined && reading.kind !== 'spoilt') return this.#ofValue(knownBy, reading)
    const entries = reading.kind === 'spoilt' ? this.#blocksIn(knownBy, request) : this.#entriesOf(knownBy, reading)
    if (field !== undefined) knownBy.found.set(field, entries)
    return entries
  }

  #add(target: Block, entry: Entry, knownBy: Map<string, KnownBy>): void {
    const { by, digest, value, cidr, country, asn } = target
    if (cidr !== undefined) this.#networks.add(cidr, entry)
    if (country !== undefined) push(this.#countries, country, entry)
    if (asn !== undefined) push(this.#asns, asn, entry)
    if (by === undefined) {
      if (digest !== undefined) push(this.#bare, digest, entry)
      return
    }
    const source = parseKnownBy(by) as Source
    let known = knownBy.get(by)
    if (!known) {
      known = {
        ...{ source, name: nameOfSource(source) },
        ...{ byDigest: new Map(), wildcards: new Wildcards<Entry>(), found: new Remembered<readonly Entry[]>() },
        hasBlocks: false,
      }
      knownBy.set(by, known)
    }
    known.hasBlocks ||= entry.kind === 'block'
    if (digest !== undefined) push(known.byDigest, digest, entry)
    if (value !== undefined) known.wildcards.add(value, entry)
  }

  #ofPlace(request: ReceivedRequest, nowMs: number): readonly Entry[] {
    let found = NOTHING
    if (!this.#networks.isEmpty) found = withCurrent(found, this.#ofAddress(request), nowMs)
    if (this.#countries.size > 0 || this.#asns.size > 0) {
      const { country, asn } = (request.cf ?? {}) as { country?: unknown; asn?: unknown }
      found = withCurrent(found, this.#countries.get(country) ?? NOTHING, nowMs)
      found = withCurrent(found, this.#asns.get(asn) ?? NOTHING, nowMs)
    }
    return found
  }

  #ofAddress(request: ReceivedRequest): readonly Entry[] {
    const said = addressOf(request)
    if (!said) return NOTHING
    let found = this.#inNetworks.get(said)
    if (!found) {
      found = this.#networks.of(said.trim())
      this.#inNetworks.set(said, found)
    }
    return found
  }

  #ofValue(knownBy: KnownBy, reading: Reading): readonly Entry[] {
    if (reading.kind !== 'value') return NOTHING
    let entries = knownBy.found.get(reading.value)
    if (!entries) {
      entries = this.#entriesOf(knownBy, reading)
      knownBy.found.set(reading.value, entries)
    }
    return entries
  }

  /** Of whatever a spoilt value may be taken for, only what keeps callers out. */
  #blocksIn(knownBy: KnownBy, request: ReceivedRequest): readonly Entry[] {
    if (!knownBy.hasBlocks) return NOTHING
    const readings = valuesIn(knownBy.source, request).map((value): Reading => ({ kind: 'value', value }))
    return readings.flatMap((reading) => this.#entriesOf(knownBy, reading)).filter(({ kind }) => kind === 'block')
  }

  /** The same for claims, where the field is not that of one token. Each token is verified. */
  async #blocksInTokens(
    knownBy: KnownBy,
    path: readonly string[],
    { headers }: ReceivedRequest,
    context: Context,
  ): Promise<readonly Entry[]> {
    let found = NOTHING
    for (const token of tokensIn(headers.get('Authorization') ?? '')) {
      // Of one context, one token is verified.
      const own: Context = { waitUntil: (work) => context.waitUntil(work) }
      const reading = await this.#readClaim?.(path, `Bearer ${token}`, own)
      if (reading) found = [...found, ...this.#ofValue(knownBy, reading).filter(({ kind }) => kind === 'block')]
    }
    return found
  }

  #entriesOf({ source, name, byDigest, wildcards }: KnownBy, reading: Reading): readonly Entry[] {
    if (reading.kind !== 'value') return NOTHING
    const { value } = reading
    const exact = byDigest.size > 0 ? byDigest.get(this.#digest([name, value])) : undefined
    // Claims are read as JSON.
    const many = wildcards.of(source.kind === 'claim' ? String(JSON.parse(value)) : value)
    return exact ? [...exact, ...many] : many
  }

  #orders(request: ReceivedRequest, found: readonly Entry[], nowMs: number): Found {
    const decided = decisive(found)
    if (decided?.kind === 'block') return blocked(decided.block, decided.untilMs)
    const isAllowed = decided !== undefined
    const overrides = overridesOf(found)
    if (this.#bare.size > 0) {
      return { isAllowed, apply: (asked) => this.#applyBare(request, asked, isAllowed, overrides, nowMs) }
    }
    if (!isAllowed && overrides.length === 0) return undefined
    return { isAllowed, apply: (asked) => applied(asked, isAllowed, overrides) }
  }

  /** Where a policy counts by one value, and that is spoilt. */
  #bareBlocksIn({ by }: Policy, request: ReceivedRequest): readonly Entry[] {
    const [source] = by
    if (!source || by.length > 1 || !isInFields(source)) return NOTHING
    const reading = read(source, { request, route: '', ipv6Prefix: this.#ipv6Prefix })
    if (!('kind' in reading) || reading.kind !== 'spoilt') return NOTHING
    const name = nameOfSource(source)
    const entries = valuesIn(source, request).flatMap((value) => this.#bare.get(this.#digest([name, value])) ?? [])
    return entries.filter(({ kind }) => kind === 'block')
  }

  /** A digest without what it is made of names a caller wherever a policy counts by that. */
  #applyBare(
    request: ReceivedRequest,
    asked: readonly Asked[],
    isAllowed: boolean,
    overrides: readonly OverrideEntry[],
    nowMs: number,
  ): readonly Ordered[] | Blocked {
    let found = NOTHING
    for (const { policy, rule } of asked) {
      found = withCurrent(found, this.#bare.get(identityOf(rule)) ?? NOTHING, nowMs)
      if (!isAllowed) found = withCurrent(found, this.#bareBlocksIn(policy, request), nowMs)
    }
    const decided = isAllowed ? undefined : decisive(found)
    if (decided?.kind === 'block') return blocked(decided.block, decided.untilMs)
    return applied(asked, isAllowed || decided !== undefined, [...overridesOf(found), ...overrides])
  }
}

export type Found = Orders | Blocked | undefined

type Kind = { kind: 'block'; block: Block } | { kind: 'allow' } | { kind: 'override'; override: Override }

/** Allows go before blocks: an operator lets some in of those that are kept out. */
function decisive(found: readonly Entry[]): Exclude<Entry, OverrideEntry> | undefined {
  let block: Extract<Entry, { kind: 'block' }> | undefined
  for (const entry of found) {
    if (entry.kind === 'allow') return entry
    // The longest one, for it is when it ends that the caller is told.
    if (entry.kind === 'block' && (!block || entry.untilMs > block.untilMs)) block = entry
  }
  return block
}

/** Those that name the caller itself before those that name many. */
function overridesOf(found: readonly Entry[]): readonly OverrideEntry[] {
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

/** For each of the asked, the first override that is about its policy. */
function applied(asked: readonly Asked[], isAllowed: boolean, overrides: readonly OverrideEntry[]): readonly Ordered[] {
  return asked.map(({ policy, rule }) => {
    if (isAllowed) return unlimited(rule)
    for (const { override } of overrides) {
      if (override.unlimited) {
        if (override.policies?.includes(policy.name) ?? true) return unlimited(rule)
        continue
      }
      const tiers = tiersUnder(override, policy, rule.tiers)
      if (tiers) return { rule: withLimits(rule, tiers) }
    }
    return { rule }
  })
}

/** Nor does it keep refusing who was refused before. */
function unlimited({ block: _, ...rule }: Rule): Ordered {
  return { rule: { ...rule, enforced: false }, isUnlimited: true }
}

const TIERS_UNDER = new WeakMap<Override, Map<readonly Tier[], readonly Tier[] | undefined>>()

/** Read once for each override that is used, and the tiers that it replaces. */
function tiersUnder(override: Override, policy: Policy, tiers: readonly Tier[]): readonly Tier[] | undefined {
  let known = TIERS_UNDER.get(override)
  if (!known) {
    known = new Map()
    TIERS_UNDER.set(override, known)
  }
  if (!known.has(tiers)) {
    const made = otherLimits(override, policy, tiers)
    known.set(tiers, made && 'tiers' in made ? made.tiers : undefined)
  }
  return known.get(tiers)
}

/** The field that alone says what a source is; null: there is none. Undefined: it is not in one field. */
function fieldOf(source: Source, request: ReceivedRequest): string | null | undefined {
  switch (source.kind) {
    case 'token':
      return request.headers.get('Authorization')
    case 'ip':
      return addressOf(request)
    case 'header':
      return request.headers.get(source.name)
    default:
      return undefined
  }
}

function addressOf({ address, headers }: ReceivedRequest): string | null {
  return address === undefined ? headers.get('CF-Connecting-IP') : address
}

/** The caller in the rule's key. */
function identityOf({ key }: Rule): string {
  return key.slice(key.lastIndexOf('{') + 1, -1)
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
