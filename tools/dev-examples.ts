/** Commands that `npm run dev` shows to try a configuration. */
import { SignJWT } from 'jose'
import type { IdentitySource } from '../src/core/model/identity-source.ts'
import type { RequestPolicy } from '../src/core/model/policy.ts'
import type { Config } from '../src/http/config/load-config.ts'
import { findPriority, type Match, PolicyFinder } from '../src/http/request/policy/policy-finder.ts'
import { createPathReader } from '../src/http/request/target.ts'

/** More requests than these would be a load test, not a demonstration. */
const MAX_REQUESTS = 1_000

const TOKEN_LASTS = '1d'

/** A shell command and what it shows. */
export interface Example {
  readonly shows: string
  readonly command: string
}

/** A request that some policy is about, and what is known about it. */
interface Candidate {
  readonly method: string
  readonly path: string
  readonly matches: readonly Match[]
  /** Requests of one caller that are admitted; infinite if nothing that curl can do one by one is limited. */
  readonly admitted: number
}

/**
 * Commands by which one caller is admitted, passes the smallest limit that holds for it, and is admitted again. The
 * last two are missing if no request can be limited one after the other, e.g. in shadow mode.
 */
export async function createExamples(
  url: string,
  { policies, exempt, jwt }: Pick<Config, 'policies' | 'exempt' | 'jwt'>,
): Promise<Example[]> {
  const candidates = listCandidates(policies, exempt)
  const limited = candidates.filter(({ admitted }) => admitted <= MAX_REQUESTS)
  // What needs the fewest requests, and of these the plainest.
  const [chosen] = limited.toSorted((a, b) => a.admitted - b.admitted)
  const { method, path, matches, admitted } = chosen ?? candidates[0] ?? ANYTHING

  const { flags, query } = describeIdentity(matches, method)
  const token = await createToken(matches, jwt)
  const curl = [`curl -s -H ${token.field}`, ...flags].join(' ')
  const target = (more: string) => quote(url + path + toQuery([...query, ...(more ? [more] : [])]))
  const admit = { shows: 'admit', command: `${curl} -i ${target('')}` }
  if (!chosen) return [...token.before, admit]
  // In seconds, to the millisecond; 0 if the answer is not a refusal.
  const wait = `${curl} ${target('')} | awk -F'"retry_after_ms":' 'NF > 1 { ms = $2 } END { printf "%.3f", ms / 1000 }'`
  const many = target(`try=[1-${admitted + 2}]`)
  return [
    ...token.before,
    admit,
    { shows: 'limit', command: `${curl} -o /dev/null -w '%{http_code}\\n' ${many} | uniq -c` },
    { shows: 'recovery', command: `sleep $(${wait}); ${curl} -i ${target('')}` },
  ]
}

const ANYTHING: Candidate = { method: 'GET', path: '/', matches: [], admitted: Number.POSITIVE_INFINITY }

/** The root, and a request for each pattern, except those that are exempt. */
function listCandidates(policies: Config['policies'], exempt: Config['exempt']): Candidate[] {
  const readPath = createPathReader()
  const finder = new PolicyFinder(policies, exempt)
  const patterns = policies.flatMap(({ match }) => match ?? [])
  const requests = [
    { method: 'GET', path: '/' },
    { method: 'GET', path: '/example' },
    ...patterns.map(({ method, path }) => ({
      method: method === '*' ? 'GET' : method,
      path: path.replaceAll(/:\w+|\*/g, 'a'),
    })),
  ]
  return requests.flatMap(({ method, path }) => {
    const read = readPath(path)
    const matches = finder.find({ meant: [method], isCertain: true }, read)
    // A response to HEAD cannot say when to come back.
    if (typeof matches === 'string' || method === 'HEAD') return []
    const priority = findPriority(matches, read)
    return [
      { method, path, matches, admitted: Math.min(...matches.map(({ policy }) => countAdmitted(policy, priority))) },
    ]
  })
}

/** How many requests in a row one caller has. */
function countAdmitted(policy: RequestPolicy, priority: keyof RequestPolicy['reserved']): number {
  // Slots are given back in between, a caller that is known is no new identity, and the echoing API fails no request.
  if (policy.mode === 'shadow' || policy.algorithm === 'concurrency' || policy.counts !== 'requests') {
    return Number.POSITIVE_INFINITY
  }
  const units = Math.min(...policy.limits.map(({ limit }) => policy.burst ?? limit)) - policy.reserved[priority]
  return Math.floor(units / (policy.cost.kind === 'fixed' ? policy.cost.units : 1))
}

/** The field that names the caller, and what is to be done before it can be sent. */
async function createToken(
  matches: readonly Match[],
  jwt: Config['jwt'],
): Promise<{ readonly field: string; readonly before: readonly Example[] }> {
  const byClaim = matches.filter(({ policy }) => policy.by.some(({ kind }) => kind === 'claim'))
  const claims = listSources(byClaim, 'claim')
  if (jwt && claims.length > 0 && jwt.keys.kind === 'secret') {
    const signed = new SignJWT(toMembers(claims)).setProtectedHeader({ alg: 'HS256' }).setExpirationTime(TOKEN_LASTS)
    if (jwt.issuer !== undefined) signed.setIssuer(jwt.issuer)
    if (jwt.audience !== undefined) signed.setAudience(jwt.audience)
    const token = await signed.sign(new TextEncoder().encode(jwt.keys.secret))
    return { field: `'Authorization: Bearer ${token}'`, before: [] }
  }
  // Who has no token that can be verified may be counted by address.
  if (jwt?.keys.kind !== 'jwks' || byClaim.every(({ policy }) => policy.anonymous.kind === 'ip')) {
    return { field: "'Authorization: Bearer a'", before: [] }
  }
  const names = claims.map(({ name }) => name).join(', ')
  const command = `read -r TOKEN  # paste one with ${names} that the keys at ${jwt.keys.url} verify`
  return { field: '"Authorization: Bearer $TOKEN"', before: [{ shows: 'token', command }] }
}

/** Describes the parts of a request, besides a token, that its policies count by. */
function describeIdentity(matches: readonly Match[], method: string): { flags: string[]; query: string[] } {
  const fields = listSources(matches, 'form').map(({ name }) => `${encodeURIComponent(name)}=a`)
  const members = listSources(matches, 'json')
  const headers = listSources(matches, 'header').flatMap(({ name }) => (name === 'authorization' ? [] : [`${name}: a`]))
  const cookies = listSources(matches, 'cookie').map(({ name }) => `${name}=a`)
  const isPlain = method === 'GET' && fields.length === 0 && members.length === 0
  return {
    flags: [
      ...headers.map((header) => `-H ${quote(header)}`),
      ...(cookies.length > 0 ? [`-b ${quote(cookies.join('; '))}`] : []),
      ...(isPlain ? [] : [`-X ${method}`]),
      ...fields.map((field) => `-d ${quote(field)}`),
      ...(members.length > 0 ? [`--json ${quote(JSON.stringify(toMembers(members)))}`] : []),
    ],
    query: listSources(matches, 'query').map(({ name }) => `${encodeURIComponent(name)}=a`),
  }
}

/** What is counted by of this kind, each once. */
function listSources<Kind extends IdentitySource['kind']>(matches: readonly Match[], kind: Kind) {
  const sources = matches
    .flatMap(({ policy }) => policy.by)
    .filter((source): source is Extract<IdentitySource, { kind: Kind; name: string }> => source.kind === kind)
  return [...new Map(sources.map((source) => [source.name, source])).values()]
}

/** An object in which each of these paths leads to a value. */
function toMembers(sources: readonly { readonly path: readonly string[] }[]): Record<string, unknown> {
  const whole: Record<string, unknown> = {}
  // What is within another one comes first.
  for (const { path } of sources.toSorted((a, b) => b.path.length - a.path.length)) {
    let at = whole
    for (const name of path.slice(0, -1)) {
      at[name] ??= {}
      at = at[name] as Record<string, unknown>
    }
    at[path.at(-1) ?? ''] ??= 'a'
  }
  return whole
}

function toQuery(parts: readonly string[]): string {
  return parts.length === 0 ? '' : `?${parts.join('&')}`
}

/** A word of the shell; one that needs no quotes has none. */
function quote(text: string): string {
  return /^[\w:/.-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}
