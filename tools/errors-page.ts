/** Writes docs/errors.md, which explains the code of each problem: `npm run errors-page`. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { ProblemCode } from '../src/http/problem.ts'
import { renderTable } from './command-page.ts'

type Row = readonly [status: string, cause: string, remedy?: string]

const LIMITS = {
  limit_exceeded: ['429', 'a limit is exceeded', 'wait `retry_after_ms`'],
  failure_limit_exceeded: ['429', 'too many failures'],
  penalty_active: ['429', 'a [penalty](configuration.md#penalties) after repeated refusals'],
  deprioritized: ['503', 'the remaining units are [reserved](configuration.md#priorities)'],
  shed: ['503', 'your API is [overloaded](configuration.md#shedding)'],
  blocked: ['403, or the rule’s', 'a [rule](rules.md) blocks the caller; `detail` is its reason', 'remove the block'],
  identity_missing: [
    '401, or `deny:<status>`',
    'the [identity](identities.md#missing-and-ambiguous-identities) is missing or ambiguous',
    'send it once; `WWW-Authenticate` is `Bearer` if a token is meant, else `APIKey`',
  ],
  invalid_cost: ['400', 'the cost header is not an integer from 1 to `max_cost`'],
  store_unavailable: [
    '503',
    'the store is unavailable and the policy is `closed`',
    'see [store outages](operations.md#store-outages)',
  ],
} satisfies Partial<Record<ProblemCode, Row>>

const REQUESTS = {
  ambiguous_path: [
    '400',
    'parsers may read the [path](identities.md#matching-paths) differently',
    'remove `//`, `;` and escaped signs; or set `LITERAL_IN_PATHS`',
  ],
  invalid_target: ['400', 'target and `Host` form no URL'],
  url_too_long: ['414', 'a path above 4,500 characters, a URL above 8,190, over 1,000 parameters'],
  invalid_connection: ['400', '`Connection` names an end-to-end header such as `Authorization`'],
  too_many_headers: ['431', 'more than 100 headers'],
  method_not_allowed: ['405', '`TRACE`, which might show `Sluice-Secret`; or another wrong method', 'see `Allow`'],
  not_found: ['404', 'nothing is at this path below `/_sluice`'],
} satisfies Partial<Record<ProblemCode, Row>>

const GATEWAY = {
  client_closed_request: ['499', 'the client went before the response'],
  internal_error: ['500', 'a fault of the gateway'],
  misconfigured: ['500', 'a variable is invalid', '`sluice check`'],
  proxy_loop: ['508', '`UPSTREAM_URL` leads back to the gateway'],
  upstream_unreachable: [
    '502',
    'your API is unreachable or sends invalid HTTP',
    'see [troubleshooting](faq.md#troubleshooting)',
  ],
  upstream_timeout: ['504', 'your API is slower than `UPSTREAM_TIMEOUT_MS`'],
} satisfies Partial<Record<ProblemCode, Row>>

const ADMIN = {
  unauthorized: ['401, or 403 to proxies', 'the token is missing or wrong'],
  too_many_attempts: ['429', 'too many wrong tokens'],
  cross_origin: ['403', 'a browser sent it for another origin’s page'],
  unknown_operation: ['404', 'no such operation'],
  invalid_input: ['400', 'the body or a parameter is invalid', 'see `pointer`'],
  unsupported_media_type: ['415', 'the body is not `application/json`'],
  body_too_large: ['413', 'a body above 256 KiB'],
  rules_disabled: ['404', '`RULES` is not "on"'],
  rules_invalid: ['500', 'the stored rules cannot be read', '[roll back](rules.md)'],
  rules_too_large: ['413', 'too many rules'],
  statistics_disabled: ['404', '`STATISTICS` is not "on"'],
  version_conflict: ['409', 'the rules have changed meanwhile'],
  version_not_found: ['404', 'the version is no longer stored'],
} satisfies Partial<Record<ProblemCode, Row>>

/** The compiler checks that no code is left out. */
const ALL: Readonly<Record<ProblemCode, Row>> = { ...LIMITS, ...REQUESTS, ...GATEWAY, ...ADMIN }

const SECTIONS = { Limits: LIMITS, Requests: REQUESTS, 'Gateway and upstream': GATEWAY, 'Admin API': ADMIN }

const INTRODUCTION = `# Errors

Each [problem](http.md#errors) has a stable \`code\`.

\`npm run errors-page\` writes this page.`

if (import.meta.main) await writeFile(join(import.meta.dirname, '../docs/errors.md'), renderErrorsPage())

export function renderErrorsPage(): string {
  const sections = Object.entries(SECTIONS).map(([title, codes]) => {
    const rows = (Object.keys(codes) as (keyof typeof ALL)[]).map((code) => {
      const [status, cause, remedy = ''] = ALL[code]
      return [`\`${code}\``, status, cause, remedy]
    })
    return `## ${title}\n\n${renderTable(['code', 'status', 'cause', 'what to do'], rows)}`
  })
  return `${[INTRODUCTION, ...sections].join('\n\n')}\n`
}
