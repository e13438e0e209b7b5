/** Builds the charge of a policy for a request. */
import { ALGORITHMS, holdsSlots } from '../../core/algorithms/algorithm-table.ts'
import { countsNewIdentities, isChargedLater } from '../../core/algorithms/decide.ts'
import { formatKey, formatPlanName, type RequestCharge } from '../../core/model/charge.ts'
import { type CostTerm, isInHead } from '../../core/model/cost.ts'
import type { IdentitySource, Reading } from '../../core/model/identity-source.ts'
import {
  type Cost,
  isEnforced,
  type MissingIdentity,
  type PolicyMode,
  type Priority,
  type RequestPolicy,
} from '../../core/model/policy.ts'
import type { Uncharged } from '../../core/model/verdict.ts'
import type { CallContext } from '../../core/runtime/call-context.ts'
import { createDigest, type Digest } from '../../core/runtime/digest.ts'
import { drawNumber } from '../../core/runtime/hash.ts'
import { TextLru } from '../../core/runtime/lru.ts'
import { readCallerAddress } from './identity/address.ts'
import { readAuthorization } from './identity/authorization.ts'
import type { ClaimReader } from './identity/claims.ts'
import { type IdentityInput, readIdentity, readIdentitySource } from './identity/identify.ts'
import { foldCase } from './policy/canonical-path.ts'
import type { Match } from './policy/policy-finder.ts'
import { type ReceivedRequest, readAnnouncedBytes } from './received-request.ts'

/** A charge, or the reason why there is none. */
export type ChargeResult = RequestCharge | Uncharged | 'skip'

export interface RequestChargeBuilderOptions {
  readonly policies: readonly RequestPolicy[]
  readonly keyPrefix: string
  /** Leading bits of an IPv6 address that make one caller. */
  readonly ipv6Prefix: number
  /** Key of the HMAC of identities; undefined: plain hashes. */
  readonly identitySecret: string | undefined
  readonly readClaim?: ClaimReader | undefined
  /** The API may take the query, forms, JSON, cookies and parts of the path for one set of parameters. */
  readonly mergesParameters?: boolean
  /** Cached digests by Authorization header, for policies that count by token alone. */
  readonly digestsOfTokens?: TextLru<string>
  /** Version of the policies, if earlier ones had the same names. */
  readonly edition?: string
  /** Draws the number of a slot; default: 53 random bits. */
  readonly drawSlot?: (() => number) | undefined
}

type Prepared = ReturnType<typeof preparePolicy>

type PolicyTerms = Omit<RequestCharge, 'route' | 'digest' | 'key' | 'cost' | 'reserved'>

export class RequestChargeBuilder {
  readonly #options: RequestChargeBuilderOptions
  readonly #digest: Digest
  readonly #digestsOfTokens: TextLru<string>
  readonly #digestsOfOthers = new TextLru<string>()
  readonly #prepared: ReadonlyMap<RequestPolicy, Prepared>

  constructor(options: RequestChargeBuilderOptions) {
    this.#options = options
    this.#digestsOfTokens = options.digestsOfTokens ?? new TextLru<string>()
    this.#digest = createDigest(options.identitySecret)
    this.#prepared = new Map(options.policies.map((policy) => [policy, preparePolicy(policy, options.edition)]))
  }

  /** @param path the canonical path @param context the same for all policies of a request */
  async build(
    { policy, route }: Match,
    request: ReceivedRequest,
    path: string,
    priority: Priority,
    context: Pick<CallContext, 'waitUntil'>,
  ): Promise<ChargeResult> {
    const prepared = this.#prepared.get(policy) as Prepared
    const { keyPrefix, ipv6Prefix, readClaim, mergesParameters, drawSlot = drawNumber } = this.#options
    const { method } = request
    const createInput = (): IdentityInput => ({
      request,
      path: route?.includes('/:') ? path : undefined,
      // To an API, HEAD is a GET.
      route: route ?? `${method === 'HEAD' ? 'GET' : method} ${policy.ignoresCase ? foldCase(path) : path}`,
      ipv6Prefix,
      readClaim,
      mergesParameters,
      context,
    })
    let digest = this.#readKnownDigest(prepared, request)
    if (digest === undefined) {
      const identity = await readIdentity(policy.by, createInput(), prepared.missing, policy.fold)
      if ('kind' in identity) {
        return identity.kind === 'skip' ? 'skip' : { outcome: 'unidentified', status: identity.status, policy }
      }
      digest = this.#readDigest(identity)
    }
    const reading = readCost(policy.cost, request, policy.mode)
    const cost = reading instanceof Promise ? await reading : reading
    if (typeof cost !== 'number') return cost
    const source = policy.plans?.source
    const terms = source
      ? findPlanTerms(prepared, source, await readIdentitySource(source, createInput()))
      : prepared.terms
    const { letter } = ALGORITHMS[policy.algorithm]
    const key = formatKey(keyPrefix, policy.name, letter, digest)
    const charge = { ...terms, route, digest, key, cost, reserved: policy.reserved[priority] }
    return holdsSlots(policy) ? { ...charge, slot: drawSlot() } : charge
  }

  /** Reads the digest where the identity is a token or address alone; a known token is neither read nor hashed again. */
  #readKnownDigest({ only }: Prepared, request: ReceivedRequest): string | undefined {
    if (only === 'ip') return this.#readDigest(['ip', readCallerAddress(request, this.#options.ipv6Prefix)])
    const field = only === 'token' ? request.headers.get('Authorization') : null
    if (field === null) return undefined
    const known = this.#digestsOfTokens.get(field)
    if (known !== undefined) return known
    const reading = readAuthorization(field)
    return reading.kind === 'value' ? this.#hash(['token', reading.value], this.#digestsOfTokens, field) : undefined
  }

  #readDigest(identity: readonly string[]): string {
    const text = JSON.stringify(identity)
    return this.#digestsOfOthers.get(text) ?? this.#hash(identity, this.#digestsOfOthers, text)
  }

  #hash(identity: readonly string[], cache: TextLru<string>, text: string): string {
    const digest = this.#digest(identity)
    cache.set(text, digest)
    return digest
  }
}

function findPlanTerms({ terms, termsByPlan }: Prepared, { kind }: IdentitySource, reading: Reading): PolicyTerms {
  if (reading.kind !== 'value') return terms
  // Claims are read as JSON.
  return termsByPlan.get(kind === 'claim' ? String(JSON.parse(reading.value)) : reading.value) ?? terms
}

/** Shadow mode refuses nothing, not even anonymous callers. */
export function findMissing(policy: RequestPolicy): MissingIdentity {
  const { anonymous } = policy
  return !isEnforced(policy) && anonymous.kind === 'deny' ? { kind: 'ip' } : anonymous
}

/** Makes what all charges of a policy have in common. */
export function preparePolicy(policy: RequestPolicy, edition?: string) {
  const { by, algorithm, plans, mode, counts, penalty, actualCost } = policy
  const createTerms = ({ limits, burst }: Pick<RequestPolicy, 'limits' | 'burst'>, name?: string): PolicyTerms => {
    const plan = formatPlanName(edition, name)
    return {
      policy,
      algorithm,
      limits,
      mode,
      ...(counts !== 'requests' && { counts: isChargedLater(policy) ? 'failures' : counts }),
      ...(actualCost && { needsSettlement: true }),
      ...(penalty !== undefined && { penalty }),
      ...(burst !== undefined && { burst }),
      ...(plan !== undefined && { plan }),
    }
  }
  return {
    /** The kind of its only source. */
    only: by.length === 1 ? by[0]?.kind : undefined,
    missing: findMissing(policy),
    terms: createTerms(policy, plans?.byDefault),
    termsByPlan: new Map(Object.entries(plans?.limits ?? {}).map(([plan, of]) => [plan, createTerms(of, plan)])),
  }
}

/** Creates the charge of a request that names no cost. @param plan if it is not known, the charge is that of no plan */
export function createDigestCharge(
  policy: RequestPolicy,
  digest: string,
  keyPrefix: string,
  plan?: string,
): RequestCharge {
  const key = formatKey(keyPrefix, policy.name, ALGORITHMS[policy.algorithm].letter, digest)
  const cost = policy.cost.kind === 'fixed' ? policy.cost.units : 1
  const { terms, termsByPlan } = preparePolicy(policy)
  const planTerms = plan === undefined ? undefined : termsByPlan.get(plan)
  return withoutReserve({ ...(planTerms ?? terms), digest, key, cost, reserved: 0 })
}

/** Usage is that of all priorities, also where only new identities are counted. */
export function withoutReserve({ counts: _, ...charge }: RequestCharge): RequestCharge {
  return { ...charge, reserved: 0 }
}

function readCost(
  cost: Cost,
  request: ReceivedRequest,
  mode: PolicyMode,
): number | Uncharged | Promise<number | Uncharged> {
  if (cost.kind === 'fixed') return cost.units
  if (cost.kind === 'application') {
    const { max } = cost
    return cost.tell(request.context as never, max).then((units) => (units > max ? refuseCost(413, max, mode) : units))
  }
  if (cost.kind === 'size') return readSizeCost(cost, request)
  const text = request.headers.get(cost.name)?.trim()
  if (text === undefined) return 1
  const units = /^\d+$/.test(text) ? Number(text) : 0
  if (units >= 1 && units <= cost.max) return units
  return refuseCost(units > cost.max ? 413 : 400, cost.max, mode, cost.name)
}

/** Refuses a request that would never be admitted: 429 would have it sent again. Shadow mode refuses nothing. */
function refuseCost(status: 400 | 413, max: number, mode: PolicyMode, header?: string): number | Uncharged {
  if (isEnforced({ mode })) return { outcome: 'invalid_cost', status, header, max }
  return status === 413 ? max : 1
}

/** A length that is not announced may be any. */
function readSizeCost({ weight, max }: Cost & { readonly kind: 'size' }, { headers, body }: ReceivedRequest): number {
  const bytes = readAnnouncedBytes(headers) ?? (body ? Number.POSITIVE_INFINITY : 0)
  return Math.min(max, Math.max(1, Math.ceil(bytes * weight)))
}

/** Tests that a cost is known only when the response has ended. */
export function isKnownAtEnd(terms: readonly CostTerm[] = []): boolean {
  return !terms.every(isInHead)
}

/** Tests that responses tell what is charged. */
export function mustAwaitResponse(policy: RequestPolicy): boolean {
  return policy.actualCost !== undefined || isChargedLater(policy)
}

/** Tests that a policy charges or holds for as long as a request is open. */
export function isHeldOpen(policy: RequestPolicy): boolean {
  return holdsSlots(policy) || mustAwaitResponse(policy)
}

/** Tests that refusals by a policy may end before their retry-after time, or are of many costs. */
export function isRefusedEarly(policy: RequestPolicy): boolean {
  const { cost, actualCost } = policy
  return holdsSlots(policy) || countsNewIdentities(policy) || cost.kind !== 'fixed' || actualCost !== undefined
}
