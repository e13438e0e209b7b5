import type { MatchedRules } from '../engine/limiter.ts'
import type { RequestCharge } from '../model/charge.ts'
import { formatSource, type IdentitySource, isInBody, isShared } from '../model/identity-source.ts'
import type { RequestPolicy } from '../model/policy.ts'
import type { Blocked } from '../model/verdict.ts'
import { type Caller, createClaimReader, createRequest, NO_RESPONSE } from '../request/caller/caller.ts'
import { readCallerAddress } from '../request/identity/address.ts'
import type { ClaimReader } from '../request/identity/claims.ts'
import { createDigest, type Digest } from '../request/identity/digest.ts'
import { foldReading } from '../request/identity/fold.ts'
import { type IdentityInput, readIdentitySource } from '../request/identity/identify.ts'
import { AMBIGUOUS } from '../request/identity/reading.ts'
import type { ReceivedRequest } from '../request/received-request.ts'
import type { CallContext } from '../runtime/call-context.ts'
import { TextLru } from '../runtime/lru.ts'
import type { Block, Rules } from './document.ts'
import { IdentityIndex, NO_ENTRIES, type RuleEffect, type RuleEntry } from './identity-index.ts'
import { Networks } from './networks.ts'
import { applyOverrides, type OverrideEntry } from './override.ts'
import { findPossibleTokens, findPossibleValues, isInFields } from './possible-values.ts'
import { parseKnownBy, type RuleTarget } from './target.ts'
import { addTo } from './wildcards.ts'

export interface RuleIndexOptions {
  readonly ipv6Prefix: number
  readonly identitySecret: string | undefined
  readonly readClaim?: ClaimReader | undefined
  /** Digests of the callers that the limiter has met, by their `Authorization`. */
  readonly digestsOfTokens?: Pick<TextLru<string>, 'get'>
}

/** The rules that match a request, before its charges are known; undefined if there are none. */
export type FoundRules = MatchedRules | Blocked | undefined

interface Arrival {
  readonly request: ReceivedRequest
  readonly context: Pick<CallContext, 'waitUntil'>
  readonly nowMs: number
}

type IndexedEntries = readonly RuleEntry[]

/** Blocks, allows and overrides: a look-up takes a few steps for each way in which they name callers. */
export class RuleIndex {
  readonly #options: RuleIndexOptions
  readonly #digest: Digest
  readonly #networks = new Networks<RuleEntry>()
  readonly #countries = new Map<unknown, RuleEntry[]>()
  readonly #asns = new Map<unknown, RuleEntry[]>()
  readonly #identities = new Map<string, IdentityIndex>()
  /** Rules by address, which takes long to be parsed. */
  readonly #knownAddresses = new TextLru<IndexedEntries>()
  /** Rules with a digest of an unnamed source: they apply where a policy counts by it. */
  readonly #byDigest = new Map<string, RuleEntry[]>()
  #lastDigestBlockMs = Number.NEGATIVE_INFINITY

  constructor({ blocks, allows, overrides }: Rules, options: RuleIndexOptions) {
    this.#options = options
    this.#digest = createDigest(options.identitySecret)
    for (const block of blocks) this.#add(block, { kind: 'block', block })
    for (const allow of allows) this.#add(allow, { kind: 'allow' })
    for (const override of overrides) this.#add(override, { kind: 'override', override })
  }

  #add(target: RuleTarget & Pick<Block, 'until'>, effect: RuleEffect): void {
    const { by, digest, cidr, country, asn, until } = target
    const entry = { ...effect, untilMs: until === undefined ? Number.POSITIVE_INFINITY : Date.parse(until) }
    if (cidr !== undefined) this.#networks.add(cidr, entry)
    if (country !== undefined) addTo(this.#countries, country, entry)
    if (asn !== undefined) addTo(this.#asns, asn, entry)
    if (by !== undefined) {
      const index = this.#identities.get(by) ?? new IdentityIndex(parseKnownBy(by) as IdentitySource, this.#digest)
      this.#identities.set(by, index)
      index.add(target, entry)
    } else if (digest !== undefined) {
      addTo(this.#byDigest, digest, entry)
      if (entry.kind === 'block') this.#lastDigestBlockMs = Math.max(this.#lastDigestBlockMs, entry.untilMs)
    }
  }

  async match(request: ReceivedRequest, nowMs: number, context: Arrival['context']): Promise<FoundRules> {
    const arrival = { request, nowMs, context }
    const found = [...this.#findByAddress(request)]
    if (this.#countries.size > 0 || this.#asns.size > 0) {
      const { country, asn } = (request.cf ?? {}) as { country?: unknown; asn?: unknown }
      found.push(...(this.#countries.get(country) ?? NO_ENTRIES), ...(this.#asns.get(asn) ?? NO_ENTRIES))
    }
    for (const [by, index] of this.#identities) {
      if (by !== 'ip') found.push(...(await this.#findByIdentity(index, arrival)))
    }
    return this.#decide(dropEnded(found, nowMs), arrival)
  }

  #findByAddress({ headers, address: known }: ReceivedRequest): IndexedEntries {
    const addresses = this.#identities.get('ip')
    if (!addresses && this.#networks.isEmpty) return NO_ENTRIES
    const address = known === undefined ? headers.get('CF-Connecting-IP') : known
    if (!address) return NO_ENTRIES
    const before = this.#knownAddresses.get(address)
    if (before) return before
    const identity = readCallerAddress({ headers, address }, this.#options.ipv6Prefix)
    const found = [...(addresses?.find(identity) ?? NO_ENTRIES), ...this.#networks.find(address.trim())]
    this.#knownAddresses.set(address, found)
    return found
  }

  async #findByIdentity(index: IdentityIndex, arrival: Arrival): Promise<IndexedEntries> {
    const { source } = index
    const digest = source.kind === 'token' ? this.#findTokenDigest(arrival.request) : undefined
    if (digest !== undefined) return index.findByDigest(digest)
    const reading = await readIdentitySource(source, this.#createInput(arrival))
    if (reading.kind === 'value') return index.find(reading.value)
    if (reading.kind === 'none' || !index.hasBlocks) return NO_ENTRIES
    return this.#findPossibleBlocks(source, arrival, (value) => index.find(value))
  }

  #createInput({ request, context }: Arrival): IdentityInput {
    const { ipv6Prefix, readClaim: read } = this.#options
    const readClaim: IdentityInput['readClaim'] = (path) =>
      read?.(path, request.headers.get('Authorization'), context) ?? AMBIGUOUS
    return { request, route: '', ipv6Prefix, readClaim }
  }

  /** Finds the digest of a token that the limiter has read before. */
  #findTokenDigest({ headers }: ReceivedRequest): string | undefined {
    const { digestsOfTokens } = this.#options
    const field = digestsOfTokens && headers.get('Authorization')
    return field ? digestsOfTokens.get(field) : undefined
  }

  /** Finds only blocks: they apply to whatever some API may take an ambiguous value for. */
  async #findPossibleBlocks(
    source: IdentitySource,
    arrival: Arrival,
    find: (value: string) => IndexedEntries,
  ): Promise<IndexedEntries> {
    const isClaim = source.kind === 'claim'
    const values = isClaim
      ? await this.#readPossibleClaims(source.path, arrival)
      : findPossibleValues(source, arrival.request)
    return values.flatMap(find).filter(({ kind }) => kind === 'block')
  }

  /** Reads a claim of each token that some API may find in a header that does not hold exactly one. Each is verified. */
  async #readPossibleClaims(path: readonly string[], { request, context }: Arrival): Promise<readonly string[]> {
    const { readClaim } = this.#options
    const field = request.headers.get('Authorization')
    if (!readClaim || !field) return []
    const words = field.trim().split(/\s+/, 3)
    // What stands where a token belongs has been verified before.
    const known = words.length < 3 ? words.at(-1) : undefined
    const tokens = findPossibleTokens(field).filter((token) => token !== known)
    // A context verifies one token only.
    const createContext = () => ({ waitUntil: (work: Promise<unknown>) => context.waitUntil(work) })
    const readings = await Promise.all(tokens.map((token) => readClaim(path, `Bearer ${token}`, createContext())))
    return readings.flatMap((reading) => (reading.kind === 'value' ? [reading.value] : []))
  }

  #decide(found: IndexedEntries, arrival: Arrival): FoundRules {
    const decisive = pickDecisiveRule(found)
    if (decisive?.kind === 'block') return toBlocked(decisive)
    const isAllowed = decisive !== undefined
    const overrides = sortOverrides(found)
    if (this.#byDigest.size > 0) {
      return { isAllowed, apply: (charges) => this.#applyByDigest(charges, isAllowed, overrides, arrival) }
    }
    if (!isAllowed && overrides.length === 0) return undefined
    return { isAllowed, apply: async (charges) => applyOverrides(charges, isAllowed, overrides) }
  }

  async #applyByDigest(
    charges: readonly RequestCharge[],
    isAllowed: boolean,
    overrides: readonly OverrideEntry[],
    arrival: Arrival,
  ): ReturnType<MatchedRules['apply']> {
    const all: RuleEntry[] = []
    for (const { policy, digest } of charges) {
      // What is meant for one caller must not apply to everyone.
      if (isShared(policy.by)) continue
      all.push(...(this.#byDigest.get(digest) ?? NO_ENTRIES))
      if (!isAllowed) all.push(...(await this.#findPossibleDigestBlocks(policy, arrival)))
    }
    const found = dropEnded(all, arrival.nowMs)
    const decisive = isAllowed ? undefined : pickDecisiveRule(found)
    if (decisive?.kind === 'block') return toBlocked(decisive)
    const isAllowedByAny = isAllowed || decisive !== undefined
    const applied = applyOverrides(charges, isAllowedByAny, [...sortOverrides(found), ...overrides])
    const sources = charges.flatMap(({ policy }) => policy.by.filter(isInBody))
    const isCertain = isAllowedByAny || sources.length === 0 || arrival.nowMs >= this.#lastDigestBlockMs
    return isCertain ? applied : this.#refuseAmbiguousBody(applied, sources, arrival)
  }

  /** Finds blocks of what an ambiguous value may be taken for, where a policy counts by that value alone. */
  async #findPossibleDigestBlocks({ by, fold }: RequestPolicy, arrival: Arrival): Promise<IndexedEntries> {
    const [source] = by
    if (!source || by.length > 1 || arrival.nowMs >= this.#lastDigestBlockMs) return NO_ENTRIES
    if (source.kind !== 'claim') {
      if (!isInFields(source)) return NO_ENTRIES
      if (source.kind === 'token' && this.#findTokenDigest(arrival.request) !== undefined) return NO_ENTRIES
      const reading = await readIdentitySource(source, this.#createInput(arrival))
      if (reading.kind !== 'ambiguous') return NO_ENTRIES
    }
    return this.#findPossibleBlocks(source, arrival, (value) => {
      const folded = fold === undefined ? undefined : foldReading(source, value, fold)
      const digest = this.#digest([formatSource(source), folded?.kind === 'value' ? folded.value : value])
      return this.#byDigest.get(digest) ?? NO_ENTRIES
    })
  }

  /** A blocked caller may be in a body that only some APIs can read, and nobody can look it up there. */
  async #refuseAmbiguousBody(
    charges: readonly RequestCharge[],
    sources: readonly IdentitySource[],
    arrival: Arrival,
  ): Promise<readonly RequestCharge[] | Blocked> {
    for (const source of sources) {
      const reading = await readIdentitySource(source, this.#createInput(arrival))
      // It is not known whose block applies, and so neither is its reason.
      if (reading.kind === 'ambiguous') return { outcome: 'blocked', status: 403 }
    }
    return charges
  }
}

function dropEnded(entries: IndexedEntries, nowMs: number): IndexedEntries {
  return entries.filter(({ untilMs }) => nowMs < untilMs)
}

/** Allows go before blocks: an operator lets some in of those that are blocked. */
function pickDecisiveRule(found: IndexedEntries): Exclude<RuleEntry, OverrideEntry> | undefined {
  let block: Extract<RuleEntry, { kind: 'block' }> | undefined
  for (const entry of found) {
    if (entry.kind === 'allow') return entry
    // The longest one, for the caller is told when it ends.
    if (entry.kind === 'block' && (!block || entry.untilMs > block.untilMs)) block = entry
  }
  return block
}

/** Overrides that name the caller itself come before those with a wildcard, of which the longest comes first. */
function sortOverrides(found: IndexedEntries): readonly OverrideEntry[] {
  const rankOf = ({ override: { value } }: OverrideEntry) =>
    value === undefined ? Number.POSITIVE_INFINITY : value.length
  return found.filter((entry) => entry.kind === 'override').sort((a, b) => rankOf(b) - rankOf(a) || 0)
}

function toBlocked({ block: { status = 403, reason }, untilMs }: Extract<RuleEntry, { kind: 'block' }>): Blocked {
  return {
    outcome: 'blocked',
    status,
    ...(reason !== undefined && { reason }),
    ...(untilMs < Number.POSITIVE_INFINITY && { untilMs }),
  }
}

/**
 * Applies the rules to a caller of whom something is known, or only the digest.
 * @param charges of this caller @param nowMs milliseconds since the Unix epoch
 * @returns the charges under the rules, in order; or why it is blocked
 * @throws {CallerError} if there is no such caller
 */
export async function applyRulesToCaller(
  rules: Rules,
  { caller, digest }: { readonly caller: Caller; readonly digest?: string | undefined },
  charges: readonly RequestCharge[],
  options: Omit<RuleIndexOptions, 'readClaim'>,
  nowMs: number,
): Promise<readonly RequestCharge[] | Blocked> {
  const known = digest === undefined ? rules : dropSources(rules, digest)
  const index = new RuleIndex(known, { ...options, readClaim: createClaimReader(caller.claim) })
  const matched = await index.match(createRequest(caller), nowMs, NO_RESPONSE)
  if (!matched) return charges
  return 'outcome' in matched ? matched : matched.apply(charges)
}

/** If only a digest is known, nothing can be read again: rules that name it apply, whatever it is a digest of. */
function dropSources(rules: Rules, digest: string): Rules {
  const drop = <Rule extends RuleTarget>(list: readonly Rule[]) =>
    list.map((rule) => (rule.digest === digest ? { ...rule, by: undefined } : rule))
  return { ...rules, blocks: drop(rules.blocks), allows: drop(rules.allows), overrides: drop(rules.overrides) }
}
