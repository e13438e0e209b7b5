/**
 * Finds the rules that match a request, in time that does not grow with their number. Rules by digest, value, network,
 * country and network operator each have an index of their own; a request is looked up in those that have any rules,
 * and only for identities that some rule names.
 */
import type { RequestCharge } from '../../core/model/charge.ts'
import { formatSource, type IdentitySource, isInBody, isShared } from '../../core/model/identity-source.ts'
import type { Blocked } from '../../core/model/verdict.ts'
import { createDigest, type Digest } from '../../core/runtime/digest.ts'
import { TextLru } from '../../core/runtime/lru.ts'
import { formatCallerAddress, readAddress } from '../../http/request/identity/address.ts'
import type { ClaimReader } from '../../http/request/identity/claims.ts'
import { foldReading } from '../../http/request/identity/fold.ts'
import { type IdentityInput, readIdentitySource } from '../../http/request/identity/identify.ts'
import type { ReceivedRequest } from '../../http/request/received-request.ts'
import type { MatchedRules } from '../../http/request/request-limiter.ts'
import type { Block, Override, Rules } from './document.ts'
import { formatBits, toWildcard } from './networks.ts'
import { applyOverrides } from './override.ts'
import { findPossibleValues } from './possible-values.ts'
import { formatTarget, parseKnownBy } from './target.ts'
import { addTo, Wildcards } from './wildcards.ts'

export interface RuleIndexOptions {
  readonly ipv6Prefix: number
  readonly identitySecret: string | undefined
  readonly readClaim?: ClaimReader | undefined
  readonly mergesParameters?: boolean
  /** Digests of the callers that the limiter has met, by their `Authorization`. */
  readonly digestsOfTokens?: Pick<TextLru<string>, 'get' | 'set'>
  /** With MODE=shadow, blocks are only logged. */
  readonly logInstead?: ((blocked: Blocked) => void) | undefined
  /** Nothing can be read again: rules that name a digest apply, whatever it is a digest of. */
  readonly isByDigestOnly?: boolean
}

/** The rules that match a request, before its charges are known; undefined if there are none. */
export type FoundRules = MatchedRules | Blocked | undefined

interface RuleEntry {
  readonly kind: 'block' | 'allow' | 'override'
  readonly rule: Block & Override
  readonly untilMs: number
}

type RuleEntries = readonly RuleEntry[]

const NO_ENTRIES: RuleEntries = []
/** If it is not known whose block applies, neither is its reason. */
const UNKNOWN_BLOCK: RuleEntry = { kind: 'block', rule: {}, untilMs: Number.POSITIVE_INFINITY }

/** The rules that name callers by one source. */
interface SourceIndex {
  readonly source: IdentitySource
  readonly byDigest: Map<string, RuleEntry[]>
  /** Entries by a part of the value; those of addresses by network. */
  readonly byPart: Wildcards<RuleEntry>
  /** Rules by value, where it would else be digested, or parsed as an address, each time. */
  readonly known: TextLru<RuleEntries>
  /** When the last block ends. */
  lastBlockMs: number
}

interface Arrival extends IdentityInput {
  readonly nowMs: number
}

/** Blocks, allows and overrides: a look-up takes a few steps for each way in which they name callers. */
export class RuleIndex {
  readonly #options: RuleIndexOptions
  readonly #digest: Digest
  readonly #sources = new Map<string, SourceIndex>()
  readonly #addresses: SourceIndex
  /** Rules by country, and by the number of a network operator. */
  readonly #origins = new Map<unknown, RuleEntry[]>()
  /** Rules with a digest of an unnamed source: they apply where a policy counts by it. */
  readonly #byDigest = new Map<string, RuleEntry[]>()
  #lastDigestBlockMs = Number.NEGATIVE_INFINITY

  constructor({ blocks, allows, overrides }: Rules, options: RuleIndexOptions) {
    this.#options = options
    this.#digest = createDigest(options.identitySecret)
    this.#addresses = this.#openSource('ip')
    for (const rule of blocks) this.#add('block', rule)
    for (const rule of allows) this.#add('allow', rule)
    for (const rule of overrides) this.#add('override', rule)
  }

  #add(kind: RuleEntry['kind'], rule: RuleEntry['rule']): void {
    const { digest, value, cidr, country, asn, until } = rule
    const by = this.#options.isByDigestOnly ? undefined : rule.by
    const entry: RuleEntry = { kind, rule, untilMs: until === undefined ? Number.POSITIVE_INFINITY : Date.parse(until) }
    const origin = country ?? asn
    if (origin !== undefined) addTo(this.#origins, origin, entry)
    if (cidr !== undefined) this.#addresses.byPart.add(toWildcard(cidr), entry)
    if (by !== undefined) {
      const index = this.#openSource(by)
      if (value !== undefined) index.byPart.add(value, entry)
      if (digest !== undefined) addTo(index.byDigest, digest, entry)
      if (kind === 'block') index.lastBlockMs = Math.max(index.lastBlockMs, entry.untilMs)
    } else if (digest !== undefined) {
      addTo(this.#byDigest, digest, entry)
      if (kind === 'block') this.#lastDigestBlockMs = Math.max(this.#lastDigestBlockMs, entry.untilMs)
    }
  }

  #openSource(by: string): SourceIndex {
    const known = this.#sources.get(by)
    if (known) return known
    const source = parseKnownBy(by) as IdentitySource
    const parts = { byDigest: new Map(), byPart: new Wildcards<RuleEntry>(), known: new TextLru<RuleEntries>() }
    const index = { source, ...parts, lastBlockMs: Number.NEGATIVE_INFINITY }
    this.#sources.set(by, index)
    return index
  }

  async match(request: ReceivedRequest, nowMs: number, context: IdentityInput['context']): Promise<FoundRules> {
    const { ipv6Prefix, readClaim, mergesParameters } = this.#options
    const arrival: Arrival = { request, route: '', ipv6Prefix, readClaim, mergesParameters, context, nowMs }
    const found = [...this.#find(this.#addresses, readAddress(request))]
    if (this.#origins.size > 0) {
      const { country, asn } = (request.cf ?? {}) as { country?: unknown; asn?: unknown }
      found.push(...(this.#origins.get(country) ?? NO_ENTRIES), ...(this.#origins.get(asn) ?? NO_ENTRIES))
    }
    for (const index of this.#sources.values()) {
      if (index !== this.#addresses) found.push(...(await this.#findByIdentity(index, arrival)))
    }
    if (found.length === 0 && this.#byDigest.size === 0) return undefined
    const { blocked, isAllowed, overrides } = judge(found, nowMs)
    if (blocked) return this.#block(blocked)
    if (this.#byDigest.size > 0) {
      return { isAllowed, apply: (charges) => this.#applyByDigest(charges, isAllowed, overrides, arrival) }
    }
    if (!isAllowed && overrides.length === 0) return undefined
    return { isAllowed, apply: async (charges) => applyOverrides(charges, isAllowed, overrides) }
  }

  async #findByIdentity(index: SourceIndex, arrival: Arrival): Promise<RuleEntries> {
    const { source, byDigest, lastBlockMs } = index
    const known = source.kind === 'token' ? this.#findTokenDigest(arrival.request) : undefined
    if (known !== undefined) return byDigest.get(known) ?? NO_ENTRIES
    const reading = await readIdentitySource(source, arrival)
    if (source.kind === 'token' && reading.kind === 'value' && index.byPart.isEmpty) {
      // The limiter need not make it again.
      const digest = this.#digest([formatSource(source), reading.value])
      const field = arrival.request.headers.get('Authorization')
      if (field !== null) this.#options.digestsOfTokens?.set(field, digest)
      return byDigest.get(digest) ?? NO_ENTRIES
    }
    if (reading.kind === 'value') return this.#find(index, reading.value)
    if (reading.kind === 'none' || arrival.nowMs >= lastBlockMs) return NO_ENTRIES
    const values = await findPossibleValues(source, arrival)
    return values?.flatMap((value) => this.#find(index, value)).filter(isBlock) ?? [UNKNOWN_BLOCK]
  }

  /** @param text what the source is read as; an address as it was sent */
  #find({ source, byDigest, byPart, known }: SourceIndex, text: string | null): RuleEntries {
    if (!text || (byDigest.size === 0 && byPart.isEmpty)) return NO_ENTRIES
    const isCached = byDigest.size > 0 || source.kind === 'ip'
    const before = isCached ? known.get(text) : undefined
    if (before) return before
    const found: RuleEntry[] = []
    if (byDigest.size > 0) {
      const value = source.kind === 'ip' ? formatCallerAddress(text, this.#options.ipv6Prefix) : text
      found.push(...(byDigest.get(this.#digest([formatSource(source), value])) ?? NO_ENTRIES))
    }
    if (!byPart.isEmpty) found.push(...byPart.find(toDivisible(source, text)))
    if (isCached) known.set(text, found)
    return found
  }

  /** Finds the digest of a token that the limiter has read before. */
  #findTokenDigest({ headers }: ReceivedRequest): string | undefined {
    const { digestsOfTokens } = this.#options
    const field = digestsOfTokens && headers.get('Authorization')
    return field ? digestsOfTokens.get(field) : undefined
  }

  #block(blocked: Blocked): Blocked | undefined {
    const { logInstead } = this.#options
    logInstead?.(blocked)
    return logInstead ? undefined : blocked
  }

  async #applyByDigest(
    charges: readonly RequestCharge[],
    isAllowed: boolean,
    overrides: readonly Override[],
    arrival: Arrival,
  ): ReturnType<MatchedRules['apply']> {
    const { nowMs } = arrival
    const mayBeBlocked = !isAllowed && nowMs < this.#lastDigestBlockMs
    // What is meant for one caller must not apply to everyone.
    const own = charges.filter(({ policy }) => !isShared(policy.by))
    const found: RuleEntry[] = []
    for (const charge of own) {
      found.push(...(this.#byDigest.get(charge.digest) ?? NO_ENTRIES))
      if (mayBeBlocked) found.push(...(await this.#findPossibleBlocks(charge, arrival)))
    }
    const judged = judge(found, nowMs)
    const isAllowedByAny = isAllowed || judged.isAllowed
    const isUnknown = mayBeBlocked && !judged.blocked && !isAllowedByAny && (await hasAmbiguousBody(own, arrival))
    const blocked = isUnknown ? toBlocked(UNKNOWN_BLOCK) : judged.blocked
    if (blocked && !isAllowed) return this.#block(blocked) ?? charges
    return applyOverrides(charges, isAllowedByAny, [...judged.overrides, ...overrides])
  }

  /** Finds blocks of what an ambiguous value may be taken for, where a policy counts by that value alone. */
  async #findPossibleBlocks({ policy, digest }: RequestCharge, arrival: Arrival): Promise<RuleEntries> {
    const [source, ...others] = policy.by
    // Addresses are never ambiguous; nobody can look up what a body may be read as.
    if (!source || others.length > 0 || source.kind === 'ip' || isInBody(source)) return NO_ENTRIES
    // The token has been read, as exactly one.
    if (source.kind === 'token' && this.#findTokenDigest(arrival.request) === digest) return NO_ENTRIES
    const reading = await readIdentitySource(source, arrival)
    if (reading.kind !== 'ambiguous') return NO_ENTRIES
    const values = await findPossibleValues(source, arrival)
    if (!values) return [UNKNOWN_BLOCK]
    return values.flatMap((value) => {
      const folded = policy.fold === undefined ? undefined : foldReading(source, value, policy.fold)
      const one = this.#digest([formatSource(source), folded?.kind === 'value' ? folded.value : value])
      return (this.#byDigest.get(one) ?? NO_ENTRIES).filter(isBlock)
    })
  }
}

/** A blocked caller may be in a body that only some APIs can read. */
async function hasAmbiguousBody(charges: readonly RequestCharge[], arrival: Arrival): Promise<boolean> {
  for (const source of charges.flatMap(({ policy }) => policy.by.filter(isInBody))) {
    const { kind } = await readIdentitySource(source, arrival)
    if (kind === 'ambiguous') return true
  }
  return false
}

function isBlock({ kind }: RuleEntry): boolean {
  return kind === 'block'
}

/** Writes a value so that rules can name a part of it. Claims are read as JSON. */
function toDivisible({ kind }: IdentitySource, text: string): string {
  if (kind === 'ip') return formatBits(text.trim()) ?? ''
  return kind === 'claim' ? String(JSON.parse(text)) : text
}

function judge(found: RuleEntries, nowMs: number) {
  const active = found.filter(({ untilMs }) => nowMs < untilMs)
  // Allows go before blocks: an operator lets some in of those that are blocked.
  const isAllowed = active.some(({ kind }) => kind === 'allow')
  // The longest one, for the caller is told when it ends.
  const [block] = isAllowed ? [] : active.filter(isBlock).sort((a, b) => b.untilMs - a.untilMs || 0)
  const overrides = active.filter(({ kind }) => kind === 'override').map(({ rule }) => rule)
  return {
    blocked: block && toBlocked(block),
    isAllowed,
    overrides: overrides.sort((a, b) => findRank(b) - findRank(a)),
  }
}

/** Overrides that name the caller itself come before those with a wildcard, of which the longest comes first. */
function findRank({ value }: Override): number {
  return value === undefined ? Number.MAX_SAFE_INTEGER : value.length
}

function toBlocked({ rule, untilMs }: RuleEntry): Blocked {
  const { status = 403, reason } = rule
  const target = formatTarget(rule)
  return {
    outcome: 'blocked',
    status,
    ...(target !== '' && { rule: target }),
    ...(reason !== undefined && { reason }),
    ...(untilMs < Number.POSITIVE_INFINITY && { untilMs }),
  }
}
