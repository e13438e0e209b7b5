import type { Config } from '../../config/load-config.ts'
import { formatSource } from '../../model/identity-source.ts'
import { formatWindow } from '../../model/limits.ts'
import type { PolicyMode, RequestPolicy } from '../../model/policy.ts'
import { type Caller, createClaimReader, createRequest, NO_RESPONSE } from '../../request/caller/caller.ts'
import { findMissing, RequestChargeBuilder } from '../../request/charge-builder.ts'
import { type IdentityInput, readIdentity } from '../../request/identity/identify.ts'
import { PatternRouter } from '../../request/policy/pattern.ts'
import { findPriority, type Match, PolicyFinder } from '../../request/policy/policy-finder.ts'
import { readMethods } from '../../request/received-request.ts'
import { createPathReader } from '../../request/target.ts'
import { formatPattern } from './implied.ts'

export interface PolicyView {
  readonly policy: string
  readonly applies: boolean
  readonly why: string
  readonly identity?: string
  readonly key?: string
  readonly cost?: number
  readonly reserved?: number
  readonly limits?: readonly string[]
  readonly penalty?: string
  readonly mode?: PolicyMode
}

export type Explanation = Awaited<ReturnType<typeof explain>>

/** Explains which policies apply to a request. The result holds no value that identifies the caller. @throws {CallerError} */
export async function explain(config: Config, caller: Caller & { readonly route: string }) {
  const request = createRequest(caller)
  const path = createPathReader(config.literalInPaths)(new URL(request.url).pathname)
  const { method } = request
  const { canonical } = path
  const policies: PolicyView[] = []
  const decide = (verdict: string) => ({ method, path: canonical, verdict, priority: null, policies })
  if (/^\/_sluice(?:\/|$)/.test(canonical)) {
    return decide('answered by the gateway itself: never limited, never passed on')
  }
  const finder = new PolicyFinder(config.policies, config.exempt)
  const matches = finder.find(readMethods(request, finder.methods), path)
  if (matches === 'exempt') {
    const router = new PatternRouter<string>()
    for (const pattern of config.exempt) router.add(pattern, `"${formatPattern(pattern)}"`)
    return decide(`exempt: EXEMPT has ${router.match(method, canonical).join(', ')}`)
  }
  if (matches === 'ambiguous') {
    const place = `APIs differ about the path after ${path.ambiguity?.prefix ?? '/'}`
    const hint = 'LITERAL_IN_PATHS says which signs the API keeps as data'
    return decide(`refused with 400: ${place}, and a policy could be missed (${hint})`)
  }
  const priority = findPriority(matches, path)
  const readClaim = createClaimReader(caller.claim)
  const builder = new RequestChargeBuilder({ ...config, readClaim })
  let verdict: string | null = null
  for (const policy of config.policies) {
    const match = matches.find((each) => each.policy === policy)
    if (!match) {
      const patterns = policy.match?.map(formatPattern).join(', ')
      policies.push({ policy: policy.name, applies: false, why: `none of its patterns matches: ${patterns}` })
      continue
    }
    const subject = {
      request: request.clone() as Request,
      route: match.route ?? `${method} ${canonical}`,
      ipv6Prefix: config.ipv6Prefix,
      readClaim,
      context: NO_RESPONSE,
    }
    const charge = () => builder.build(match, request.clone() as Request, canonical, priority, NO_RESPONSE)
    const { refusal, ...view } = await explainPolicy(match, method, charge, subject, caller.ip !== undefined)
    policies.push({ policy: policy.name, ...view })
    verdict ??= refusal ?? null
  }
  return { method, path: canonical, verdict, priority, policies }
}

async function explainPolicy(
  match: Match,
  method: string,
  charge: () => ReturnType<RequestChargeBuilder['build']>,
  subject: IdentityInput,
  hasAddress: boolean,
): Promise<Omit<PolicyView, 'policy'> & { readonly refusal?: string }> {
  const { policy } = match
  const { name, counts, mode } = policy
  const why = explainMatch(match, method)
  if (policy.limits.length === 0) {
    return { applies: false, why: `${why}: gives the priority ${policy.priority}, and has no limits` }
  }
  const refuse = (status: number, lack: string) => ({
    applies: true,
    why: `${why}, refuses with ${status}: ${lack}`,
    refusal: `refused with ${status} by policy "${name}": ${lack}`,
  })
  const lack = `the caller lacks ${policy.by.map(formatSource).join(' or ')}`
  const result = await charge()
  if (result === 'skip') return { applies: false, why: `${why}, but ${lack}, and anonymous = "skip"` }
  if ('outcome' in result) {
    return result.outcome === 'unidentified'
      ? refuse(result.status, lack)
      : refuse(400, `the header ${result.header} holds no cost from 1 to ${result.max}`)
  }
  const { key, cost, reserved, limits, plan } = result
  const parts = await readIdentity(policy.by, subject, findMissing(policy), policy.fold)
  const kinds = 'kind' in parts ? [] : parts.filter((_, at) => at % 2 === 0)
  // Without an address, the digest would be another one.
  const isUnknown = !hasAddress && kinds.includes('ip')
  const identity = formatIdentity(policy, kinds)
  const onPlan = plan === undefined ? '' : `; on the plan "${plan}"`
  const { penalty } = policy
  const refusals = penalty?.after === 1 ? '1 refusal' : `${penalty?.after} refusals`
  return {
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
    ...(mode === 'enforce' && penalty && { penalty: `${formatWindow(penalty.durationMs)} after ${refusals}` }),
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
