/** Finds policies that are valid, each by itself, and wrong together. */
import { isInBody } from '../../core/model/identity-source.ts'
import { countsEveryRequest } from '../../core/model/limits.ts'
import type { Pattern, Priority, RequestPolicy } from '../../core/model/policy.ts'
import type { Config } from '../../http/config/load-config.ts'
import { mayOverlap } from '../../http/request/policy/pattern.ts'
import { EVERY_REQUEST } from '../../http/request/policy/policy-finder.ts'
import { locate, locatePolicy } from '../settings/locate.ts'
import type { Settings } from '../settings/settings.ts'
import { readRequiredSecrets } from '../worker-config.ts'
import type { Finding } from './finding.ts'
import { covers, findImplied, formatPattern } from './implied.ts'

const MIN_SHARE = 0.1
/** Each reads 8 KB of a query or of cookies, if a request has them, in 0.2 ms. Workers have 10 ms on the free plan. */
const MAX_READERS = 40

/** Finds mistakes in the combination of policies, each of which must be valid. */
export function* findPolicyMistakes(config: Config, settings: Settings): Iterable<Finding> {
  for (const policy of config.policies) yield* findExempt(policy, config, settings)
  yield* findUnlimited(config, settings)
  yield* findImplied(config, settings)
  for (const policy of config.policies) yield* findReserveMistakes(policy, config, settings)
  for (const policy of config.policies) yield* findAmbiguousBodies(policy, settings)
  for (const policy of config.policies) yield* findCostMistakes(policy, settings)
  yield* findMergedParameters(config, settings)
  yield* findMethodInForm(config, settings)
  yield* findUnfolded(config, settings)
  yield* findManyReaders(config, settings)
  yield* findClaimMistakes(config, settings)
}

function* findExempt(policy: RequestPolicy, { exempt }: Config, settings: Settings): Iterable<Finding> {
  const patterns = policy.match ?? [EVERY_REQUEST]
  // An exemption is case-sensitive; a policy for the other spellings alone is not expected.
  const findExemption = (pattern: Pattern) => exempt.find((each) => covers(each, pattern))
  const covered = patterns.filter(findExemption)
  const exemption = covered[0] && findExemption(covered[0])
  if (!exemption) return
  const names = quotePatterns(covered)
  const suffix = covered.length === patterns.length ? ` (${names})` : `, ${names} of its patterns`
  const subject = `policy "${policy.name}"${policy.match ? suffix : ''}`
  const message = `${subject} never applies: EXEMPT has "${formatPattern(exemption)}"`
  const hint = 'Narrow the exemption, or remove the policy.'
  const at = policy.match ? locatePolicy(settings, policy, 'match') : locate(settings, 'EXEMPT')
  yield { code: 'exempt', message, hint, at }
}

function* findUnlimited({ policies, isShedding }: Config, settings: Settings): Iterable<Finding> {
  const limiting = policies.filter(({ limits, counts }) => limits.length > 0 && countsEveryRequest(counts))
  for (const policy of policies.filter(({ limits }) => limits.length === 0)) {
    const patterns = policy.match ?? [EVERY_REQUEST]
    const unlimited = patterns.filter((pattern) => !limiting.some((other) => appliesTo(other, pattern)))
    const isReserving = (other: RequestPolicy) => hasReserve(other) && patterns.some((each) => appliesTo(other, each))
    if (unlimited.length > 0) {
      const message = `nothing limits ${quotePatterns(unlimited)}: policy "${policy.name}" only gives it a priority`
      const hint = 'Add limits to this policy, or a policy with limits for the same requests.'
      yield { code: 'unlimited-route', message, hint, at: locatePolicy(settings, policy, policy.match && 'match') }
    } else if (!isShedding && !limiting.some(isReserving)) {
      const reason = 'no policy there has a reserve, and SHEDDING is off'
      const message = `policy "${policy.name}" gives a priority, which changes nothing: ${reason}`
      const hint = 'Give a policy there a reserve, or set SHEDDING = "on".'
      yield { code: 'priority-without-effect', message, hint, at: locatePolicy(settings, policy, 'priority') }
    }
  }
  const isAll = limiting.some(({ match }) => match === undefined || match.some((each) => covers(each, EVERY_REQUEST)))
  if (isAll || limiting.length === 0) return
  const limited = limiting.flatMap(({ match }) => match ?? []).map(formatPattern)
  const message = `nothing limits requests other than ${limited.join(', ')}`
  const hint = 'RATE_LIMITS, or a policy without match, would.'
  const variable = settings.variables.RATE_LIMITS === undefined ? 'POLICIES' : 'RATE_LIMITS'
  yield { code: 'unlimited-rest', message, hint, at: locate(settings, variable) }
}

/** Finds a reserve that nobody may use, that restricts nobody, or that leaves nearly nothing. */
function* findReserveMistakes(policy: RequestPolicy, { policies }: Config, settings: Settings): Iterable<Finding> {
  if (!hasReserve(policy)) return
  const { reserved, limits, name, match = [EVERY_REQUEST] } = policy
  const limit = limits[0]?.limit ?? 0
  const at = locatePolicy(settings, policy, 'reserve')
  const isGiven = (priority: Priority) =>
    policies.some((other) => other.priority === priority && match.some((each) => appliesTo(other, each)))
  if (reserved.default > 0 && !isGiven('critical')) {
    const keeps = `keeps ${reserved.default} of ${limit} for critical requests`
    const message = `policy "${name}" ${keeps}, and no policy makes any critical: nobody can use them`
    const hint = 'Add a policy with priority = "critical" for the requests that may.'
    yield { code: 'reserve-for-nobody', message, hint, at }
  }
  if (reserved.sheddable > reserved.default && !isGiven('sheddable')) {
    const message = `policy "${name}" keeps units from sheddable requests, and no policy makes any sheddable`
    const hint = 'Add a policy with priority = "sheddable" for the requests that are to stop first.'
    yield { code: 'reserve-without-effect', message, hint, at }
  }
  const worst = isGiven('sheddable') ? 'sheddable' : 'default'
  const remaining = limit - reserved[worst]
  if (remaining >= limit * MIN_SHARE) return
  const leaves = `leaves ${remaining} of ${limit} to ${worst} requests`
  const message = `policy "${name}" ${leaves}: the reserve takes nearly the whole window`
  yield { code: 'reserve-leaves-little', message, hint: 'Lower the reserve, or raise the limit.', at }
}

/** Finds a limit by a value of the body that counts unreadable bodies by address: a client chooses which bodies those are. */
function* findAmbiguousBodies(policy: RequestPolicy, settings: Settings): Iterable<Finding> {
  const { name, by, limits, anonymous } = policy
  const isByBody = by.some(isInBody) && !by.some(({ kind }) => kind === 'ip')
  if (limits.length === 0 || anonymous.kind === 'deny' || !isByBody) return
  const message = `policy "${name}" counts bodies that cannot be read for certain by address: one caller has the limit once for each address`
  const hint =
    'anonymous = "deny", the default with form: and json:, refuses padded and multipart bodies, and repeated names.'
  yield { code: 'ambiguous-body', message, hint, at: locatePolicy(settings, policy, 'anonymous') }
}

/** Finds costs that some responses do not tell, or none can. */
function* findCostMistakes(policy: RequestPolicy, settings: Settings): Iterable<Finding> {
  const { name, actualCost = [], match, untold } = policy
  const paths = actualCost.flatMap((term) => (term.kind === 'json' ? term.paths : []))
  if (paths.length === 0) return
  // A number has no members, and dots separate none.
  const isBelow = (path: readonly string[], other: readonly string[]) =>
    path.length < other.length && path.every((token, at) => token === other[at])
  const lost = paths.find(
    (path) => paths.some((other) => isBelow(path, other)) || path.some((token) => /^\$|\w\.\w/.test(token)),
  )
  if (lost) {
    const message = `policy "${name}" reads a number at /${lost.join('/')}, where there can be none`
    const hint = 'A pointer (RFC 6901) leads to one number, with "/" before each name.'
    yield { code: 'untold-pointer', message, hint, at: locatePolicy(settings, policy, 'actual_cost') }
  }
  const others = match?.filter(({ method }) => method !== 'POST')
  if (untold === 0 || others?.length === 0) return
  const where = others ? quotePatterns(others) : 'every request'
  const message = `policy "${name}" matches ${where}, of which some may answer without a cost: each is charged \`untold\``
  const hint = 'Match only what tells its cost, such as "POST /v1/chat/completions".'
  yield { code: 'untold-routes', message, hint, at: locatePolicy(settings, policy, match && 'match') }
}

/** Finds the first limit by a parameter of the query that a body may contradict, if nobody has said what the API does. */
function* findMergedParameters({ policies }: Config, settings: Settings): Iterable<Finding> {
  if (settings.variables.MERGED_PARAMETERS !== undefined) return
  const hasBody = ({ match }: RequestPolicy) =>
    match?.some(({ method }) => !/^(?:GET|HEAD|OPTIONS)$/.test(method)) ?? true
  const isMeant = (one: RequestPolicy) =>
    one.limits.length > 0 && one.by.some(({ kind }) => kind === 'query') && hasBody(one)
  const policy = policies.find(isMeant)
  if (!policy) return
  const message = `policy "${policy.name}" counts by a parameter of the query, which some APIs take from a body: with one that is multipart or over 8 KiB, the caller is unknown`
  const hint = 'MERGED_PARAMETERS = "off" if your API looks in the query alone, else "on".'
  yield { code: 'merged-parameters', message, hint, at: locatePolicy(settings, policy, 'by') }
}

/** Finds the first pattern that a POST gets around where the API takes another method from a form. */
function* findMethodInForm({ policies }: Config, settings: Settings): Iterable<Finding> {
  const isNamed = ({ method }: Pattern) => /^(?:PUT|PATCH|DELETE)$/.test(method)
  const isMissed = ({ match = [] }: RequestPolicy) =>
    match.some((one) => isNamed(one) && !match.some((other) => covers(other, { ...one, method: 'POST' })))
  const policy = policies.find((one) => one.limits.length > 0 && isMissed(one))
  if (!policy) return
  const named = quotePatterns(policy.match?.filter(isNamed) ?? [])
  const message = `policy "${policy.name}" matches ${named}, and no POST whose form has _method, which Laravel, Rails and Spring take for the method`
  const hint = 'If your API does, add the same paths with POST.'
  yield { code: 'method-in-form', message, hint, at: locatePolicy(settings, policy, 'match') }
}

/** Finds the first limit on guesses that counts apart what databases take for one account. */
function* findUnfolded({ policies }: Config, settings: Settings): Iterable<Finding> {
  const isWhole = (fold = '') => /^(?=.*lower)(?=.*trim)(?=.*accents)|numbers/.test(fold)
  const isGuess = ({ limits, counts, by }: RequestPolicy) =>
    limits.length > 0 && counts === 'failures' && by.some((source) => isInBody(source))
  const policy = policies.find((one) => isGuess(one) && !isWhole(one.fold))
  if (!policy) return
  const message = `policy "${policy.name}" counts spellings of an account apart that databases may take for one, such as "Ada", "áda" and "ada "`
  const hint = 'fold = "lower trim accents", or "numbers" for numbers, unless your API compares every letter.'
  yield { code: 'unfolded', message, hint, at: locatePolicy(settings, policy, 'by') }
}

function* findManyReaders({ policies }: Config, settings: Settings): Iterable<Finding> {
  const isReader = ({ by, limits }: RequestPolicy) =>
    limits.length > 0 && by.some(({ kind }) => kind === 'query' || kind === 'cookie')
  const readers = policies.filter(isReader)
  if (readers.length <= MAX_READERS) return
  const patterns = readers.flatMap(({ match }) => match ?? [EVERY_REQUEST])
  const together = patterns.map((pattern) => readers.filter((other) => appliesTo(other, pattern)))
  const last = together.find(({ length }) => length > MAX_READERS)?.at(MAX_READERS)
  if (!last) return
  const message = `more than ${MAX_READERS} policies for one request count by query: or cookie:, and to read a long one takes 10 ms`
  const hint = 'Give them patterns that do not overlap, or count by a header.'
  yield { code: 'many-readers', message, hint, at: locatePolicy(settings, last, 'by') }
}

function* findClaimMistakes({ jwt }: Config, settings: Settings): Iterable<Finding> {
  if (!jwt) return
  const isKnown = jwt.keys.kind === 'jwks' || settings.variables.JWT_SECRET !== undefined
  if (!isKnown && !readRequiredSecrets(settings)?.includes('JWT_SECRET')) {
    const message = 'policies ask for claims: the Worker starts only if the secret JWT_SECRET is set'
    const hint = 'Set it by `wrangler secret put JWT_SECRET` and add it to [secrets] required, or set JWKS_URL.'
    yield { code: 'keys-elsewhere', message, hint, at: locate(settings, 'POLICIES') }
  }
  if (jwt.audience !== undefined) return
  const message = 'JWT_AUDIENCE is not set: tokens that were made for other APIs count as well'
  const hint = 'Set it to the name that the issuer gives to this API.'
  const variable = jwt.keys.kind === 'jwks' ? 'JWKS_URL' : 'POLICIES'
  yield { code: 'any-audience', message, hint, at: locate(settings, variable) }
}

function appliesTo({ match }: RequestPolicy, pattern: Pattern): boolean {
  return match === undefined || match.some((each) => mayOverlap(each, pattern))
}

function hasReserve({ reserved }: RequestPolicy): boolean {
  return reserved.sheddable > 0
}

function quotePatterns(patterns: readonly Pattern[]): string {
  return patterns.map((pattern) => `"${formatPattern(pattern)}"`).join(', ')
}
