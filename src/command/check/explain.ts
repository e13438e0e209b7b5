/** Explains which policies apply to a request, and who counts as its caller. */
import { formatSource } from '../../core/model/identity-source.ts'
import { formatWindow } from '../../core/model/limits.ts'
import { isEnforced, type Priority, type RequestPolicy } from '../../core/model/policy.ts'
import { type Caller, createClaimReader, createRequest, NO_RESPONSE } from '../../gateway/callers/caller.ts'
import type { Config } from '../../http/config/load-config.ts'
import { findMissing, RequestChargeBuilder } from '../../http/request/charge-builder.ts'
import { readIdentity } from '../../http/request/identity/identify.ts'
import { PatternRouter } from '../../http/request/policy/pattern.ts'
import { findPriority, type Match, PolicyFinder } from '../../http/request/policy/policy-finder.ts'
import { readMethods } from '../../http/request/received-request.ts'
import { createPathReader } from '../../http/request/target.ts'
import { formatPattern } from './implied.ts'

export type Explanation = Awaited<ReturnType<typeof explain>>
type PolicyView = Awaited<ReturnType<typeof explainPolicy>>

/** @returns no value that identifies the caller @throws {CallerError} */
export async function explain(config: Config, caller: Caller & { readonly route: string }) {
  const request = createRequest(caller)
  const path = createPathReader(config.literalInPaths)(new URL(request.url).pathname)
  const { method } = request
  const { canonical } = path
  const answer = (verdict: string | null, priority: Priority | null = null, policies: readonly PolicyView[] = []) => {
    return { method, path: canonical, verdict, priority, policies: policies.map(({ refusal: _, ...view }) => view) }
  }
  if (/^\/_sluice(?:\/|$)/.test(canonical)) {
    return answer('answered by the gateway itself: never limited, never passed on')
  }
  const finder = new PolicyFinder(config.policies, config.exempt)
  const matches = finder.find(readMethods(request, finder.methods), path)
  if (matches === 'exempt') {
    const router = new PatternRouter<string>()
    for (const pattern of config.exempt) router.add(pattern, `"${formatPattern(pattern)}"`)
    return answer(`exempt: EXEMPT has ${router.match(method, canonical).join(', ')}`)
  }
  if (matches === 'ambiguous') {
    const place = `APIs differ about the path after ${path.ambiguity?.prefix ?? '/'}`
    const hint = 'LITERAL_IN_PATHS says which signs the API keeps as data'
    return answer(`refused with 400: ${place}, and a policy could be missed (${hint})`)
  }
  const explained = config.policies.map((policy) => {
    const match = matches.find((each) => each.policy === policy)
    const priority = findPriority(matches, path, policy.mode)
    return explainPolicy(policy, match, { config, caller, path: canonical, priority })
  })
  const views = await Promise.all(explained)
  const refusal = views.find(({ refusal }) => refusal !== undefined)?.refusal ?? null
  const isAnyEnforced = config.policies.some(isEnforced)
  return answer(refusal, findPriority(matches, path, isAnyEnforced ? 'enforce' : 'shadow'), views)
}

/** The request, and the findings that concern all policies. */
interface ExplainedRequest {
  readonly config: Config
  readonly caller: Caller
  /** The canonical path. */
  readonly path: string
  readonly priority: Priority
}

/** @param match undefined if the policy does not apply */
async function explainPolicy(policy: RequestPolicy, match: Match | undefined, explained: ExplainedRequest) {
  const { name, counts, mode, penalty } = policy
  if (!match) {
    const patterns = policy.match?.map(formatPattern).join(', ')
    return { policy: name, applies: false, why: `none of its patterns matches: ${patterns}` }
  }
  const { config, caller, path, priority } = explained
  const request = createRequest(caller)
  const why = explainMatch(match, request.method)
  if (policy.limits.length === 0) {
    return { policy: name, applies: false, why: `${why}: gives the priority ${policy.priority}, and has no limits` }
  }
  const readClaim = createClaimReader(caller.claim)
  const builder = new RequestChargeBuilder({ ...config, policies: [policy], readClaim })
  const charge = await builder.build(match, request, path, priority, NO_RESPONSE)
  const lack = `the caller lacks ${policy.by.map(formatSource).join(' or ')}`
  if (charge === 'skip') {
    return { policy: name, applies: false, why: `${why}, but ${lack}, and anonymous = "skip"` }
  }
  if ('outcome' in charge) {
    const isUnidentified = charge.outcome === 'unidentified'
    const status = isUnidentified ? charge.status : 400
    const reason = isUnidentified ? lack : `the header ${charge.header} holds no cost from 1 to ${charge.max}`
    const refusal = `refused with ${status} by policy "${name}": ${reason}`
    return { policy: name, applies: true, why: `${why}, refuses with ${status}: ${reason}`, refusal }
  }
  const { key, cost, reserved, limits, plan } = charge
  const input = {
    request: createRequest(caller),
    route: '',
    ipv6Prefix: config.ipv6Prefix,
    mergesParameters: config.mergesParameters,
    readClaim,
    context: NO_RESPONSE,
  }
  const parts = await readIdentity(policy.by, input, findMissing(policy), policy.fold)
  const kinds = 'kind' in parts ? [] : parts.filter((_, at) => at % 2 === 0)
  // Without an address, the digest would be another one.
  const isUnknown = caller.ip === undefined && kinds.includes('ip')
  const identity = formatIdentity(policy, kinds)
  const onPlan = plan === undefined ? '' : `; on the plan "${plan}"`
  const refusals = penalty?.after === 1 ? '1 refusal' : `${penalty?.after} refusals`
  return {
    policy: name,
    applies: true,
    why: `${why}${onPlan}${counts === 'requests' ? '' : `; counts ${counts}`}`,
    identity: isUnknown ? `${identity}, which --ip names` : identity,
    key: isUnknown ? key.replace(/\{.*\}$/, '{…}') : key,
    cost,
    reserved,
    limits: policy.limits.map((limit, at) => {
      const window = limit.name === name ? 'at once' : `per ${limit.name.slice(name.length + 1)}`
      return `${limits[at]?.limit} ${window}`
    }),
    ...(isEnforced(policy) && penalty && { penalty: `${formatWindow(penalty.durationMs)} after ${refusals}` }),
    mode,
  }
}

function explainMatch({ policy, route, isCertain }: Match, method: string): string {
  if (policy.match === undefined) return 'applies to every request'
  const wanted = route?.split(' ', 1)[0]
  const isWanted = wanted === '*' || wanted === method || (wanted === 'GET' && method === 'HEAD')
  const certainty = isCertain
    ? ''
    : ', if the API takes what follows the last slash for an empty parameter, or does not mind the case'
  return `matches ${route}${isWanted ? '' : ', the method that a header or the query names'}${certainty}`
}

function formatIdentity({ by }: RequestPolicy, kinds: readonly string[]): string {
  if (kinds.length === 0) return ''
  const names = by.map(formatSource)
  const parts = names.map((name, at) =>
    (kinds[at] ?? name) === name ? name : `${kinds[at]} (${name} is missing or unreadable)`,
  )
  return parts.join(' + ')
}
