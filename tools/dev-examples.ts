import type { Config } from '../src/config/load-config.ts'
import type { Policy } from '../src/request/policy/policy.ts'
import { type Match, PolicyFinder, priorityOf } from '../src/request/policy/policy-finder.ts'
import { createPathReader } from '../src/request/policy/request-path.ts'

/** More requests than these would be a load test, not a demonstration. */
const MAX_REQUESTS = 1_000

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
export function examples(url: string, { policies, exempt }: Pick<Config, 'policies' | 'exempt'>): Example[] {
  const candidates = candidatesOf(policies, exempt)
  const limited = candidates.filter(({ admitted }) => admitted <= MAX_REQUESTS)
  // What needs the fewest requests, and of these the plainest.
  const [chosen] = limited.toSorted((a, b) => a.admitted - b.admitted)
  const { method, path, matches, admitted } = chosen ?? candidates[0] ?? ANYTHING

  const { flags, query } = identityOf(matches, method)
  const curl = ['curl -s', ...flags].join(' ')
  const target = (more: string) => quoted(url + path + asQuery([...query, ...(more ? [more] : [])]))
  const admit = { shows: 'admit', command: `${curl} -i ${target('')}` }
  if (!chosen) return [admit]
  // In seconds, to the millisecond; 0 if the answer is not a refusal.
  const wait = `${curl} ${target('')} | awk -F'"retry_after_ms":' '{ printf "%.3f", $2 / 1000 }'`
  const many = target(`try=[1-${admitted + 2}]`)
  return [
    admit,
    { shows: 'limit', command: `${curl} -o /dev/null -w '%{http_code}\\n' ${many} | uniq -c` },
    { shows: 'recovery', command: `sleep $(${wait}); ${curl} -i ${target('')}` },
  ]
}

const ANYTHING: Candidate = { method: 'GET', path: '/', matches: [], admitted: Number.POSITIVE_INFINITY }

/** The root, and a request for each pattern, except those that are exempt. */
function candidatesOf(policies: Config['policies'], exempt: Config['exempt']): Candidate[] {
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
    const priority = priorityOf(matches, read)
    return [{ method, path, matches, admitted: Math.min(...matches.map(({ policy }) => admittedBy(policy, priority))) }]
  })
}

/** How many requests in a row one caller has. */
function admittedBy(policy: Policy, priority: keyof Policy['reserved']): number {
  // Slots are given back in between, and a caller that is known is no new identity.
  if (!policy.enforced || policy.algorithm === 'concurrency' || policy.counts === 'identities') {
    return Number.POSITIVE_INFINITY
  }
  const units = Math.min(...policy.tiers.map(({ limit }) => policy.burst ?? limit)) - policy.reserved[priority]
  return Math.floor(units / (policy.cost.kind === 'fixed' ? policy.cost.units : 1))
}

/** What a request needs to have the identities that its policies count by. */
function identityOf(matches: readonly Match[], method: string): { flags: string[]; query: string[] } {
  const sources = matches.flatMap(({ policy }) => policy.by)
  const fields = new Set(
    sources.flatMap((source) => (source.kind === 'form' ? [`${encodeURIComponent(source.name)}=a`] : [])),
  )
  const headers = new Set(sources.flatMap((source) => (source.kind === 'header' ? [`${source.name}: a`] : [])))
  headers.delete('authorization: a')
  const query = new Set(
    sources.flatMap((source) => (source.kind === 'query' ? [`${encodeURIComponent(source.name)}=a`] : [])),
  )
  const isPlain = method === 'GET' && fields.size === 0
  return {
    flags: [
      `-H 'Authorization: Bearer a'`,
      ...[...headers].map((header) => `-H ${quoted(header)}`),
      ...(isPlain ? [] : [`-X ${method}`]),
      ...[...fields].map((field) => `-d ${quoted(field)}`),
    ],
    query: [...query],
  }
}

function asQuery(parts: readonly string[]): string {
  return parts.length === 0 ? '' : `?${parts.join('&')}`
}

/** A word of the shell; one that needs no quotes has none. */
function quoted(text: string): string {
  return /^[\w:/.-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}
