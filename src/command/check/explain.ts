import type { Config } from '../../config/load-config.ts'
import type { Block } from '../../model/limits.ts'
import { formatWindow } from '../../model/limits.ts'
import type { Priority, RequestPolicy, Source } from '../../model/policy.ts'
import { claimReaderOf, NO_RESPONSE, type Pairs, requestOf } from '../../request/caller/caller.ts'
import type { ClaimReader, Claims } from '../../request/identity/claims.ts'
import { identify, type Subject } from '../../request/identity/identify.ts'
import { nameOfSource } from '../../request/identity/source.ts'
import { PatternRouter } from '../../request/policy/pattern.ts'
import { type Match, PolicyFinder, priorityOf } from '../../request/policy/policy-finder.ts'
import { readMethods } from '../../request/received-request.ts'
import { RuleMaker } from '../../request/rule-maker.ts'
import { createPathReader, type RequestPath } from '../../request/target.ts'
import { patternText } from './covers.ts'

export interface AskedRequest {
  /** `METHOD /path?query`. */
  readonly route: string
  readonly header?: Pairs | undefined
  readonly form?: Pairs | undefined
  readonly ip?: string | undefined
  readonly claim?: Claims | undefined
}

/** What a policy makes of a request. */
export interface PolicyView {
  readonly policy: string
  /** It is asked whether the request may pass. */
  readonly applies: boolean
  readonly why: string
  /** By what the caller is counted, without what that says of it. */
  readonly identity?: string
  readonly key?: string
  readonly cost?: number
  /** Units that are left to more important requests. */
  readonly reserved?: number
  readonly tiers?: readonly string[]
  /** What happens to who is refused. */
  readonly block?: string
  readonly mode?: 'enforce' | 'shadow'
}

export interface Explanation {
  readonly method: string
  /** In its one spelling, by which policies go. */
  readonly path: string
  /** What becomes of it without counting, and why; undefined if policies are asked. */
  readonly verdict: string | undefined
  readonly class: Priority | undefined
  readonly policies: readonly PolicyView[]
}

/** Says what policies make of a request, and why. No value that identifies the caller is in it. @throws {CallerError} */
export async function explain(config: Config, { route, header, form, ip, claim }: AskedRequest): Promise<Explanation> {
  const request = requestOf({ route, header, form, ip })
  const path = createPathReader(config.literalInPaths)(new URL(request.url).pathname)
  const { method } = request
  const whole = { method, path: path.canonical }
  if (/^\/_sluice(?:\/|$)/.test(path.canonical)) {
    return {
      ...whole,
      verdict: 'answered by the gateway itself: never limited, never passed on',
      class: undefined,
      policies: [],
    }
  }
  const finder = new PolicyFinder(config.policies, config.exempt)
  const methods = readMethods(request, finder.methods)
  const found = finder.find(methods, path)
  if (found === 'exempt') {
    const patterns = exemptionsOf(config, method, path)
    return { ...whole, verdict: `exempt: EXEMPT has ${patterns.join(', ')}`, class: undefined, policies: [] }
  }
  if (found === 'ambiguous') {
    const hint = 'LITERAL_IN_PATHS says which signs the API keeps as data'
    const verdict = `refused with 400: APIs differ about the path after ${path.ambiguity?.prefix ?? '/'}, and a policy could be missed (${hint})`
    return { ...whole, verdict, class: undefined, policies: [] }
  }
  const priority = priorityOf(found, path)
  const readClaim = claimReaderOf(claim)
  const maker = new RuleMaker({ ...config, readClaim })
  const policies: PolicyView[] = []
  let verdict: string | undefined
  for (const policy of config.policies) {
    const match = found.find((each) => each.policy === policy)
    if (!match) {
      policies.push({
        policy: policy.name,
        applies: false,
        why: `none of its patterns matches: ${policy.match?.map(patternText).join(', ')}`,
      })
      continue
    }
    const known = { hasAddress: ip !== undefined, readClaim }
    const { view, refusal } = await viewOf(config, maker, match, request, path, priority, known)
    policies.push(view)
    verdict ??= refusal
  }
  return { ...whole, verdict, class: priority, policies }
}

async function viewOf(
  config: Config,
  maker: RuleMaker,
  match: Match,
  request: Request,
  path: RequestPath,
  priority: Priority,
  { hasAddress, readClaim }: { readonly hasAddress: boolean; readonly readClaim: ClaimReader },
): Promise<{ readonly view: PolicyView; readonly refusal?: string }> {
  const { policy, route } = match
  const { name } = policy
  const why = whyOf(policy, match, request.method)
  if (policy.tiers.length === 0) {
    return {
      view: { policy: name, applies: false, why: `${why}: gives the class ${policy.priority}, and has no limits` },
    }
  }
  const asked = await maker.make(match, request.clone() as Request, path.canonical, priority, NO_RESPONSE)
  switch (asked.kind) {
    case 'skip':
      return {
        view: {
          policy: name,
          applies: false,
          why: `${why}, but the caller lacks ${sourcesOf(policy.by)}, and missing = "skip"`,
        },
      }
    case 'unidentified': {
      const lack = `the caller lacks ${sourcesOf(policy.by)}`
      return {
        view: { policy: name, applies: true, why: `${why}, but ${lack}` },
        refusal: `refused with ${asked.status} by policy "${name}": ${lack}`,
      }
    }
    case 'bad-cost': {
      const lack = `the field ${asked.header} holds no cost from 1 to ${asked.max}`
      return {
        view: { policy: name, applies: true, why: `${why}, but ${lack}` },
        refusal: `refused with 400 by policy "${name}": ${lack}`,
      }
    }
    case 'rule': {
      const { key, cost, reserved, tiers: limits, plan } = asked.rule
      const identified = await identityOf(policy, {
        request: request.clone() as Request,
        route: route ?? `${request.method} ${path.canonical}`,
        ipv6Prefix: config.ipv6Prefix,
        readClaim: (path) => readClaim(path, null, NO_RESPONSE),
      })
      // The digest would be that of no address.
      const isUnknown = !hasAddress && /(?:^|\+ )ip\b/.test(identified)
      const identity = isUnknown ? `${identified}, which --ip names` : identified
      const keyShown = isUnknown ? key.replace(/\{.*\}$/, '{…}') : key
      const tiers = policy.tiers.map(
        (tier, index) =>
          `${limits[index]?.limit} ${tier.name === name ? 'at once' : `per ${tier.name.slice(name.length + 1)}`}`,
      )
      const mode = policy.enforced ? 'enforce' : 'shadow'
      const onPlan = plan === undefined ? why : `${why}; on the plan "${plan}"`
      const counted = policy.counts === 'requests' ? onPlan : `${onPlan}; counts ${policy.counts}`
      const block = policy.enforced && policy.block ? { block: blockInWords(policy.block) } : undefined
      return {
        view: {
          policy: name,
          applies: true,
          why: counted,
          identity,
          key: keyShown,
          cost,
          reserved,
          tiers,
          ...block,
          mode,
        },
      }
    }
  }
}

function blockInWords({ blockMs, after }: Block): string {
  return `${formatWindow(blockMs)} after ${after === 1 ? '1 refusal' : `${after} refusals`}`
}

function whyOf({ match: patterns }: RequestPolicy, { route, isCertain }: Match, method: string): string {
  if (patterns === undefined) return 'applies to every request'
  const named = route?.split(' ', 1)[0]
  const isNamed = named === '*' || named === method || (named === 'GET' && method === 'HEAD')
  const certainty = isCertain
    ? ''
    : ', if the API takes what follows the last slash for an empty parameter, or does not mind the case'
  return `matches ${route}${isNamed ? '' : ', the method that a field or the query names'}${certainty}`
}

async function identityOf(policy: RequestPolicy, subject: Subject): Promise<string> {
  const parts = await identify(policy.by, subject, policy.missing)
  if ('kind' in parts) return ''
  const kinds = parts.filter((_, index) => index % 2 === 0)
  return policy.by
    .map((source, index) => {
      const wanted = nameOfSource(source)
      const kind = kinds[index] ?? wanted
      return kind === wanted ? wanted : `${kind} (${wanted} is missing or unreadable)`
    })
    .join(' + ')
}

function sourcesOf(sources: readonly Source[]): string {
  return sources.map(nameOfSource).join(' or ')
}

function exemptionsOf({ exempt }: Config, method: string, { canonical }: RequestPath): readonly string[] {
  const router = new PatternRouter<string>()
  for (const pattern of exempt) router.add(pattern, `"${patternText(pattern)}"`)
  return router.match(method, canonical)
}
