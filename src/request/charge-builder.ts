import { ALGORITHMS } from '../algorithms/algorithm-table.ts'
import { formatKey, type RequestCharge } from '../model/charge.ts'
import type { Cost, MissingIdentity, Plans, Priority, RequestPolicy } from '../model/policy.ts'
import type { Uncharged } from '../model/verdict.ts'
import type { CallContext } from '../runtime/call-context.ts'
import { TextLru } from '../runtime/lru.ts'
import { randomSlot } from '../runtime/random.ts'
import { readAuthorization } from './identity/authorization.ts'
import type { ClaimReader } from './identity/claims.ts'
import { createDigest, type Digest } from './identity/digest.ts'
import { type IdentityInput, readIdentity, readIdentitySource } from './identity/identify.ts'
import { AMBIGUOUS } from './identity/reading.ts'
import { foldCase } from './policy/canonical-path.ts'
import type { Match } from './policy/policy-finder.ts'
import type { ReceivedRequest } from './received-request.ts'

/** What a policy charges for a request, or why nothing. */
export type ChargeResult = RequestCharge | Uncharged | 'skip'

export interface ChargeBuilderOptions {
  readonly policies: readonly RequestPolicy[]
  /** First part of every key. */
  readonly keyPrefix: string
  /** Leading bits of an IPv6 address that make one caller. */
  readonly ipv6Prefix: number
  /** Key of the HMAC of identities; undefined: they are plainly hashed. */
  readonly identitySecret: string | undefined
  /** Reads claims of tokens; left out: no token can be verified. */
  readonly readClaim?: ClaimReader | undefined
  /** Digests by what callers send as Authorization, for policies that count by it alone; left out, none is known before. */
  readonly digestsOfTokens?: TextLru<string>
  /** Tells these policies from others that had the same names before; left out, there were none. */
  readonly edition?: string
}

/** What is the same in all rules of a policy. */
interface Prepared {
  readonly keyPrefix: string
  readonly isByTokenOnly: boolean
  /** Shadow mode refuses nobody, not even anonymous callers. */
  readonly missing: MissingIdentity
  readonly rule: PolicyTerms
  readonly rulesByPlan: ReadonlyMap<string, PolicyTerms>
}

type PolicyTerms = Omit<RequestCharge, 'route' | 'digest' | 'key' | 'cost' | 'reserved'>

/** Builds the charges of requests: who is calling, at what cost. */
export class ChargeBuilder {
  readonly #ipv6Prefix: number
  readonly #digest: Digest
  readonly #digestsOfTokens: TextLru<string>
  /** By all that other policies count by, as JSON. */
  readonly #digestsOfOthers = new TextLru<string>()
  readonly #readClaim: ClaimReader | undefined
  readonly #prepared: ReadonlyMap<RequestPolicy, Prepared>

  constructor({ keyPrefix, ipv6Prefix, identitySecret, readClaim, policies, ...options }: ChargeBuilderOptions) {
    const { digestsOfTokens = new TextLru<string>(), edition } = options
    this.#digestsOfTokens = digestsOfTokens
    this.#ipv6Prefix = ipv6Prefix
    this.#readClaim = readClaim
    this.#digest = createDigest(identitySecret)
    this.#prepared = new Map(policies.map((policy) => [policy, prepare(policy, keyPrefix, edition)]))
  }

  /**
   * @param path canonical: what `route` stands for in a policy without patterns
   * @param context the request's, the same for all of its policies
   */
  build(
    match: Match,
    request: ReceivedRequest,
    path: string,
    priority: Priority,
    context: Pick<CallContext, 'waitUntil'>,
  ): ChargeResult | Promise<ChargeResult> {
    const { policy } = match
    const prepared = this.#prepared.get(policy) as Prepared
    const digest = this.#digestOfToken(prepared, request)
    // Nothing is to be waited for.
    if (digest !== undefined && policy.cost.kind === 'fixed' && !policy.plans) {
      return createCharge(match, prepared, prepared.rule, digest, policy.cost.units, priority)
    }
    return this.#build(match, prepared, digest, request, path, priority, context)
  }

  async #build(
    match: Match,
    prepared: Prepared,
    digestOfToken: string | undefined,
    request: ReceivedRequest,
    path: string,
    priority: Priority,
    context: Pick<CallContext, 'waitUntil'>,
  ): Promise<ChargeResult> {
    const { policy, route } = match
    const subject = (): IdentityInput => ({
      request,
      route: route ?? `${normalizeMethod(request)} ${policy.ignoresCase ? foldCase(path) : path}`,
      ipv6Prefix: this.#ipv6Prefix,
      readClaim: (claim) => this.#readClaim?.(claim, request.headers.get('Authorization'), context) ?? AMBIGUOUS,
    })
    const digest = digestOfToken ?? (await this.#readDigest(policy, prepared, subject()))
    if (digest === undefined) return 'skip'
    if (typeof digest !== 'string') return digest
    const told = readCost(policy.cost, request, policy.enforced)
    const cost = told instanceof Promise ? await told : told
    if (typeof cost !== 'number') return cost
    const limits = policy.plans ? await findPlanTerms(policy.plans, prepared, subject()) : prepared.rule
    return createCharge(match, prepared, limits, digest, cost, priority)
  }

  /**
   * Of a caller that is known by its token alone. If it was here before, the token is neither read nor hashed again.
   * @returns undefined if it is to be known by something else, such as its address because the token is unreadable
   */
  #digestOfToken({ isByTokenOnly }: Prepared, { headers }: ReceivedRequest): string | undefined {
    const field = isByTokenOnly ? headers.get('Authorization') : null
    if (field === null) return undefined
    const known = this.#digestsOfTokens.get(field)
    if (known !== undefined) return known
    const reading = readAuthorization(field)
    return reading.kind === 'value' ? this.#hash(['token', reading.value], this.#digestsOfTokens, field) : undefined
  }

  /** @returns undefined if the policy does not apply to callers like this one */
  async #readDigest(
    policy: RequestPolicy,
    { missing }: Prepared,
    subject: IdentityInput,
  ): Promise<string | Uncharged | undefined> {
    const identity = await readIdentity(policy.by, subject, missing, policy.fold)
    if ('kind' in identity) {
      return identity.kind === 'skip' ? undefined : { kind: 'unidentified', status: identity.status, policy }
    }
    const text = JSON.stringify(identity)
    return this.#digestsOfOthers.get(text) ?? this.#hash(identity, this.#digestsOfOthers, text)
  }

  #hash(identity: readonly string[], memory: TextLru<string>, text: string): string {
    const digest = this.#digest(identity)
    memory.set(text, digest)
    return digest
  }
}

/** Those of the plan that the caller is on; of the default plan, if that cannot be told. */
async function findPlanTerms(
  { source }: Plans,
  { rule, rulesByPlan }: Prepared,
  subject: IdentityInput,
): Promise<PolicyTerms> {
  const reading = await readIdentitySource(source, subject)
  if (reading.kind !== 'value') return rule
  // Claims are read as JSON.
  const plan = source.kind === 'claim' ? String(JSON.parse(reading.value)) : reading.value
  return rulesByPlan.get(plan) ?? rule
}

function prepare(policy: RequestPolicy, keyPrefix: string, edition: string | undefined): Prepared {
  const { by, algorithm, plans, enforced, missing, counts, block, settleHeader } = policy
  const ruleOf = ({ tiers, burst }: Pick<RequestPolicy, 'tiers' | 'burst'>, plan?: string): PolicyTerms => ({
    policy,
    algorithm,
    tiers,
    enforced,
    ...(counts !== 'requests' && { counts }),
    ...(settleHeader !== undefined && { isSettled: true }),
    ...(block !== undefined && { block }),
    ...(burst !== undefined && { burst }),
    ...((plan ?? edition) !== undefined && { plan: [edition, plan].join(' ').trim() }),
  })
  return {
    keyPrefix,
    isByTokenOnly: by.length === 1 && by[0]?.kind === 'token',
    missing: !enforced && missing.kind === 'deny' ? { kind: 'ip' } : missing,
    rule: ruleOf(policy, plans?.byDefault),
    rulesByPlan: new Map(Object.entries(plans?.limits ?? {}).map(([plan, limits]) => [plan, ruleOf(limits, plan)])),
  }
}

function createCharge(
  { policy, route }: Match,
  { keyPrefix }: Prepared,
  limits: PolicyTerms,
  digest: string,
  cost: number,
  priority: Priority,
): RequestCharge {
  const key = formatKey(keyPrefix, policy.name, ALGORITHMS[policy.algorithm].letter, digest)
  const charge = { ...limits, route, digest, key, cost, reserved: policy.reserved[priority] }
  return ALGORITHMS[policy.algorithm].holdsSlots ? { ...charge, slot: randomSlot() } : charge
}

/** HEAD counts as GET, which it is to an API. */
function normalizeMethod({ method }: ReceivedRequest): string {
  return method === 'HEAD' ? 'GET' : method
}

function readCost(cost: Cost, request: ReceivedRequest, enforced: boolean): number | Uncharged | Promise<number> {
  if (cost.kind === 'fixed') return cost.units
  if (cost.kind === 'application') return cost.tell(request.context as never, cost.max)
  const text = request.headers.get(cost.name)?.trim()
  if (text === undefined) return 1
  const units = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN
  if (units >= 1 && units <= cost.max) return units
  return enforced ? { kind: 'bad-cost', header: cost.name, max: cost.max } : 1
}
