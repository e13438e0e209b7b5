import { ALGORITHMS } from '../../algorithms/algorithm-table.ts'
import { formatKey, type RequestCharge } from '../../model/charge.ts'
import type { IdentitySource, Pattern, RequestPolicy } from '../../model/policy.ts'
import type { Store } from '../../model/store.ts'
import { ChargeBuilder, type ChargeBuilderOptions } from '../charge-builder.ts'
import { readIdentity } from '../identity/identify.ts'
import { type CallerKind, formatSource, isCallerKind } from '../identity/source.ts'
import { type Match, PolicyFinder } from '../policy/policy-finder.ts'
import { readMethods } from '../received-request.ts'
import { createPathReader, type PathLiteral } from '../target.ts'
import { type Caller, createClaimReader, createRequest, NO_RESPONSE } from './caller.ts'
import { CallerError } from './caller-in-text.ts'

/** The parts of the configuration that determine keys. */
export interface CountingConfig extends ChargeBuilderOptions {
  readonly exempt: readonly Pattern[]
  readonly literalInPaths: readonly PathLiteral[]
}

export interface SkippedPolicy {
  readonly policy: RequestPolicy
  readonly why: string
  /** The attribute of the caller that is missing. */
  readonly needs?: CallerKind | 'route'
}

export interface CallerCharges {
  readonly charges: readonly RequestCharge[]
  readonly leftOut: readonly SkippedPolicy[]
}

/** Finds the charge of each policy for a caller. @throws {CallerError} if the caller is impossible */
export async function findCallerCharges(config: CountingConfig, caller: Caller): Promise<CallerCharges> {
  const request = createRequest(caller)
  const path = createPathReader(config.literalInPaths)(new URL(request.url).pathname)
  const builder = new ChargeBuilder({ ...config, readClaim: createClaimReader(caller.claim) })
  const charges: RequestCharge[] = []
  const leftOut: SkippedPolicy[] = []
  for (const match of findMatches(config, caller, request)) {
    const { policy, route = '' } = match
    const why = await findSkipReason(config, match, caller, request.clone() as Request)
    if (why !== undefined) {
      // By route, a policy has a match for each of its patterns.
      if (!leftOut.some((each) => each.policy === policy)) leftOut.push({ policy, ...why })
      continue
    }
    const charge = await builder.build(match, request.clone() as Request, path.canonical, 'default', NO_RESPONSE)
    if (charge === 'skip' || 'kind' in charge) leftOut.push({ policy, why: 'it does not apply to this caller' })
    else charges.push({ ...withoutReserve(charge), route: isByRoute(policy) ? route : undefined })
  }
  return { charges, leftOut }
}

/** Finds the charge of each policy for an identity of which only the digest is known. @throws {CallerError} if it is none */
export async function findDigestCharges(config: CountingConfig, digest: string): Promise<CallerCharges> {
  if (!/^[\w-]{22}$/.test(digest)) {
    throw new CallerError('expected 22 letters, digits, "-" or "_", as in braces at the end of a key', 'digest')
  }
  // A caller that is counted by address has an identity in every policy.
  const policies = config.policies.map((policy): RequestPolicy => ({ ...policy, missing: { kind: 'ip' } }))
  const builder = new ChargeBuilder({ ...config, policies })
  const charges: RequestCharge[] = []
  for (const [index, policy] of policies.entries()) {
    if (policy.tiers.length === 0) continue
    const match = { policy, route: '', isCertain: true }
    const charge = await builder.build(match, createRequest({}), '/', 'default', NO_RESPONSE)
    if (charge === 'skip' || 'kind' in charge) continue
    const key = formatKey(config.keyPrefix, policy.name, ALGORITHMS[policy.algorithm].letter, digest)
    const own = { policy: config.policies[index] as RequestPolicy, route: undefined, digest, key }
    charges.push({ ...withoutReserve(charge), ...own })
  }
  return { charges, leftOut: [] }
}

/** Finds the policies that apply to the caller's request; without one, all of them, those by route once for each pattern. */
function findMatches(
  { policies, exempt, literalInPaths }: CountingConfig,
  caller: Caller,
  request: Request,
): readonly Match[] {
  const limiting = policies.filter(({ tiers }) => tiers.length > 0)
  if (caller.route !== undefined) {
    const finder = new PolicyFinder(limiting, exempt)
    const path = createPathReader(literalInPaths)(new URL(request.url).pathname)
    const found = finder.find(readMethods(request, finder.methods), path)
    if (typeof found !== 'string') return found
    throw new CallerError(`${request.method} ${path.canonical} is ${found}: no policy is asked`, 'route')
  }
  return limiting.flatMap((policy): Match[] => {
    const patterns = isByRoute(policy) ? (policy.match ?? []) : []
    const routes = patterns.map(({ method, path }) => `${method} ${path}`)
    return (routes.length > 0 ? routes : [undefined]).map((route) => ({ policy, route, isCertain: true }))
  })
}

async function findSkipReason(
  { ipv6Prefix }: CountingConfig,
  { policy, route }: Match,
  caller: Caller,
  request: Request,
): Promise<Omit<SkippedPolicy, 'policy'> | undefined> {
  if (isByRoute(policy) && route === undefined && caller.route === undefined)
    return { why: 'it counts by path', needs: 'route' }
  const unknown = policy.by.find((source) => isCallerKind(source.kind) && !isKnown(caller, source))
  const reason = unknown && { why: `it counts by ${formatSource(unknown)}`, needs: unknown.kind as CallerKind }
  if (reason && caller.ip === undefined) {
    if (unknown.kind === 'claim' && policy.missing.kind !== 'ip') return reason
    if (unknown.kind !== 'ip' && policy.missing.kind === 'ip')
      return { ...reason, why: `${reason.why}, or by address without it` }
  }
  const readClaim = (path: readonly string[]) => createClaimReader(caller.claim)(path, null, NO_RESPONSE)
  const subject = { request, route: route ?? '', ipv6Prefix, readClaim }
  const identity = await readIdentity(policy.by, subject, policy.missing)
  if ('kind' in identity)
    return reason ?? { why: `the caller lacks what it counts by, and missing = "${identity.kind}"` }
  const isByAddress = identity.some((part, index) => index % 2 === 0 && part === 'ip')
  return isByAddress && caller.ip === undefined ? { why: 'it counts this caller by address', needs: 'ip' } : undefined
}

function isKnown(caller: Caller, source: IdentitySource): boolean {
  const value = caller[source.kind as CallerKind]
  if (!Array.isArray(value) || !('name' in source)) return value !== undefined
  return value.some(([name]) => (source.kind === 'header' ? name.toLowerCase() : name) === source.name)
}

function isByRoute({ by }: RequestPolicy): boolean {
  return by.some(({ kind }) => kind === 'route')
}

/** Usage is that of all priorities, also where only new identities are counted. */
function withoutReserve({ counts: _, ...charge }: RequestCharge): RequestCharge {
  return { ...charge, reserved: 0 }
}

/** The usage of one limit of one policy by a caller. */
export interface TierState {
  readonly policy: string
  readonly tier: string
  readonly route: string | null
  readonly key: string
  readonly limit: number
  readonly windowMs: number
  readonly used: number
  readonly left: number
  readonly resetMs: number
  readonly retryAfterMs: number
  /** End of a penalty, in milliseconds since the Unix epoch; null without one. */
  readonly blockedUntilMs: number | null
}

export interface Usage {
  readonly nowMs: number
  readonly tiers: readonly TierState[]
}

/** Peeks at the counts of all policies in one call. @throws {StoreError} */
export async function readUsage(store: Pick<Store, 'decide'>, charges: readonly RequestCharge[]): Promise<Usage> {
  if (charges.length === 0) return { nowMs: Date.now(), tiers: [] }
  const { nowMs, usage } = await store.decide({ mode: 'peek', permits: 1, rules: charges })
  const tiers = charges.flatMap((charge, index) =>
    charge.policy.tiers.map(({ name, windowMs, limit: byDefault }, at): TierState => {
      // A plan has its own limits.
      const limit = charge.burst ?? charge.tiers[at]?.limit ?? byDefault
      const { remaining = limit, resetMs = 0, retryAfterMs = 0, blockedMs } = usage[index]?.[at] ?? {}
      const used = limit - remaining
      return {
        policy: charge.policy.name,
        tier: name,
        route: charge.route ?? null,
        key: charge.key,
        limit,
        windowMs,
        used,
        left: remaining,
        resetMs: used === 0 ? 0 : resetMs,
        retryAfterMs,
        blockedUntilMs: blockedMs === undefined ? null : nowMs + blockedMs,
      }
    }),
  )
  return { nowMs, tiers }
}
