/** Finds the charges of a caller whom an operator has named. */
import { ALGORITHMS } from '../../core/algorithms/algorithm-table.ts'
import type { RequestCharge } from '../../core/model/charge.ts'
import {
  type CallerKind,
  type CallerSource,
  formatSource,
  isCallerSource,
  isShared,
} from '../../core/model/identity-source.ts'
import { isEnforced, type Pattern, type RequestPolicy } from '../../core/model/policy.ts'
import type { Store } from '../../core/model/store.ts'
import { MAX_BUCKET } from '../../core/options/read-limits.ts'
import {
  createDigestCharge,
  findMissing,
  preparePolicy,
  RequestChargeBuilder,
  type RequestChargeBuilderOptions,
  withoutReserve,
} from '../../http/request/charge-builder.ts'
import { findClaim } from '../../http/request/identity/claims.ts'
import { readIdentity } from '../../http/request/identity/identify.ts'
import { type Match, PolicyFinder } from '../../http/request/policy/policy-finder.ts'
import { readMethods } from '../../http/request/received-request.ts'
import { createPathReader, type PathLiteral, type RequestPath } from '../../http/request/target.ts'
import { type Caller, createClaimReader, createRequest, NO_RESPONSE } from './caller.ts'
import { CallerError } from './caller-in-text.ts'

/** The parts of the configuration that determine keys. */
export interface CountingConfig extends RequestChargeBuilderOptions {
  readonly exempt: readonly Pattern[]
  readonly literalInPaths: readonly PathLiteral[]
}

export interface SkippedPolicy {
  readonly policy: RequestPolicy
  readonly reason: string
  /** The attribute of the caller that is missing. */
  readonly needs?: CallerKind | 'route'
}

export interface CallerCharge extends RequestCharge {
  /** The plan whose limits these are, or were before a rule changed them. */
  readonly planName?: string | undefined
  /** The caller may have another plan: nothing that is known of it says which. */
  readonly isAssumed?: boolean
}

export interface CallerCharges {
  readonly charges: readonly CallerCharge[]
  readonly skipped: readonly SkippedPolicy[]
}

/** Finds the charge of each policy for a caller. @throws {CallerError} if the caller is impossible */
export async function findCallerCharges(config: CountingConfig, caller: Caller): Promise<CallerCharges> {
  const request = createRequest(caller)
  const path = createPathReader(config.literalInPaths)(new URL(request.url).pathname)
  const builder = new RequestChargeBuilder({ ...config, readClaim: createClaimReader(caller.claim) })
  const charges: CallerCharge[] = []
  const skipped: SkippedPolicy[] = []
  for (const match of findMatches(config, caller, request, path)) {
    const { policy, route = '' } = match
    const reason = await findSkipReason(config, match, caller, request.clone() as Request)
    if (reason !== undefined) {
      // By route, a policy has a match for each of its patterns.
      if (!skipped.some((each) => each.policy === policy)) skipped.push({ policy, ...reason })
      continue
    }
    const charge = await builder.build(match, request.clone() as Request, path.canonical, 'default', NO_RESPONSE)
    if (charge === 'skip' || 'outcome' in charge) skipped.push({ policy, reason: 'it does not apply to this caller' })
    else {
      const counted = { ...withoutReserve(charge), planName: charge.plan, route: isByRoute(policy) ? route : undefined }
      charges.push(...(isPlanKnown(caller, policy) ? [counted] : listAssumedPlans(counted)))
    }
  }
  return { charges, skipped }
}

/** Finds the charge of each policy for an identity of which only the digest is known. @throws {CallerError} if it is none */
export function findDigestCharges({ policies, keyPrefix }: CountingConfig, digest: string): CallerCharges {
  if (!/^[\w-]{22}$/.test(digest)) {
    throw new CallerError('expected 22 letters, digits, "-" or "_", as in braces at the end of a key', 'digest')
  }
  const limiting = policies.filter(({ limits }) => limits.length > 0)
  const charges = limiting.flatMap((policy) => listAssumedPlans(createDigestCharge(policy, digest, keyPrefix)))
  return { charges, skipped: [] }
}

function isPlanKnown(caller: Caller, { plans }: RequestPolicy): boolean {
  return plans === undefined || !isCallerSource(plans.source) || isGiven(caller, plans.source)
}

/** Tests that something is known of what a rule or a plan goes by. */
export function isGiven(caller: Caller, source: CallerSource): boolean {
  return source.kind === 'claim' ? findClaim(caller.claim ?? {}, source.path).kind !== 'none' : isKnown(caller, source)
}

/** Makes a charge under each plan that a caller may have: what was counted is the same, and what is left is not. */
export function listAssumedPlans(charge: RequestCharge): readonly [CallerCharge, ...CallerCharge[]] {
  const [first = charge, ...others] = [...preparePolicy(charge.policy).termsByPlan].map(([planName, terms]) => {
    return { ...charge, ...terms, planName, isAssumed: true }
  })
  return [first, ...others]
}

/** Finds the policies that apply to the caller's request; without one, all of them, those by route once for each pattern. */
function findMatches(
  { policies, exempt }: CountingConfig,
  caller: Caller,
  request: Request,
  path: RequestPath,
): readonly Match[] {
  const limiting = policies.filter(({ limits }) => limits.length > 0)
  if (caller.route !== undefined) {
    const finder = new PolicyFinder(limiting, exempt)
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
  { ipv6Prefix, mergesParameters }: CountingConfig,
  { policy, route }: Match,
  caller: Caller,
  request: Request,
): Promise<Omit<SkippedPolicy, 'policy'> | undefined> {
  if (isByRoute(policy) && route === undefined && caller.route === undefined)
    return { reason: 'it counts by path', needs: 'route' }
  const unknown = policy.by.filter(isCallerSource).find((source) => !isKnown(caller, source))
  const reason = unknown && { reason: `it counts by ${formatSource(unknown)}`, needs: unknown.kind }
  if (reason && caller.ip === undefined) {
    if (unknown.kind === 'claim' && policy.anonymous.kind !== 'ip') return reason
    if (unknown.kind !== 'ip' && policy.anonymous.kind === 'ip')
      return { ...reason, reason: `${reason.reason}, or by address without it` }
  }
  const readClaim = createClaimReader(caller.claim)
  const subject = { request, route: route ?? '', ipv6Prefix, mergesParameters, readClaim, context: NO_RESPONSE }
  const identity = await readIdentity(policy.by, subject, findMissing(policy), policy.fold)
  if ('kind' in identity)
    return reason ?? { reason: `the caller lacks what it counts by, and anonymous = "${identity.kind}"` }
  const isByAddress = identity.some((part, index) => index % 2 === 0 && part === 'ip')
  return isByAddress && caller.ip === undefined
    ? { reason: 'it counts this caller by address', needs: 'ip' }
    : undefined
}

function isKnown(caller: Caller, source: CallerSource): boolean {
  const value = caller[source.kind]
  if (!Array.isArray(value) || !('name' in source)) return value !== undefined
  return value.some(([name]) => (source.kind === 'header' ? name.toLowerCase() : name) === source.name)
}

function isByRoute({ by }: RequestPolicy): boolean {
  return by.some(({ kind }) => kind === 'route')
}

export type LimitUsage = Awaited<ReturnType<typeof readUsage>>['limits'][number][number]

/** Peeks at the counts of all policies. @returns the limits of each charge @throws {StoreError} */
export async function readUsage(store: Pick<Store, 'decide'>, charges: readonly CallerCharge[]) {
  if (charges.length === 0) return { nowMs: Date.now(), limits: [] }
  const { nowMs, usage } = await store.decide({ action: 'peek', permits: 1, charges })
  // A limit that was lowered, or exceeded by actual costs, hides how much of it is used.
  const full = charges.filter((_, index) => usage[index]?.some(({ remaining }) => remaining === 0)).map(withRoom)
  const roomy = full.length > 0 ? (await store.decide({ action: 'peek', permits: 1, charges: full })).usage : []
  const limits = charges.map(({ policy, isUnlimited = false, ...charge }, index) =>
    policy.limits.map(({ name, windowMs, limit: byDefault }, at) => {
      // A plan has its own limits.
      const limit = charge.burst ?? charge.limits[at]?.limit ?? byDefault
      const { remaining = limit, resetMs = 0, retryAfterMs = 0, penaltyMs } = usage[index]?.[at] ?? {}
      const other = remaining > 0 ? -1 : full.findIndex(({ key }) => key === charge.key)
      const room = full[other]?.burst ?? full[other]?.limits[at]?.limit ?? limit
      const used = Math.max(limit - remaining, room - (roomy[other]?.[at]?.remaining ?? room))
      return {
        policy: policy.name,
        name,
        route: charge.route ?? null,
        key: charge.key,
        plan: charge.planName ?? null,
        assumed: charge.isAssumed ?? false,
        limit,
        windowMs,
        used,
        remaining,
        resetMs: used === 0 ? 0 : resetMs,
        retryAfterMs: isUnlimited ? 0 : retryAfterMs,
        /** Milliseconds since the Unix epoch; null without a penalty. */
        penaltyUntilMs: penaltyMs === undefined ? null : nowMs + penaltyMs,
        unlimited: isUnlimited,
        shadow: !isEnforced(charge) && !isUnlimited,
        shared: isShared(policy.by),
      }
    }),
  )
  return { nowMs, limits }
}

/** More than was ever counted. */
const ROOM = 1_000_000_000_000

/** The refill of a bucket stays: what it lacks is counted by it. */
function withRoom(charge: CallerCharge): CallerCharge {
  const [{ windowMs } = { windowMs: 1 }] = charge.limits
  if (ALGORITHMS[charge.algorithm].hasBurst) return { ...charge, burst: Math.floor(MAX_BUCKET / (windowMs * 1_000)) }
  return { ...charge, limits: charge.limits.map((each) => ({ ...each, limit: ROOM })) }
}
