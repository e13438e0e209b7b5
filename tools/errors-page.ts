/**
 * Writes docs/errors.md, which explains each code of a problem or an option, and each event of the log; and the page at
 * `/_sluice/errors`, to which the `type` of a problem leads: `npm run errors-page`.
 */
import type { OptionErrorCode } from '../src/core/options/option-error.ts'
import type { LogEvent } from '../src/core/runtime/log.ts'
import type { ProblemCode } from '../src/http/response/problem.ts'
import { renderTable } from './markdown.ts'
import { writeGenerated } from './write-generated.ts'

/** Status, cause and perhaps what to do, as Markdown. */
type Row = `${string} | ${string}`

const LIMITS = {
  limit_exceeded: '429, or the policy’s | a limit is exceeded | wait `retry_after_ms`',
  failure_limit_exceeded: 'the same | too many failures',
  penalty_active: 'the same | a [penalty](policies.md#penalties) after repeated refusals',
  deprioritized: '503, or the policy’s | the remaining units are [reserved](policies.md#priorities)',
  shed: '503 | the API is [overloaded](policies.md#shedding)',
  blocked: '403, or the rule’s | a [rule](rules.md) blocks the caller; `detail` is its reason | remove the block',
  identity_missing:
    '401, or `deny:<status>` | the [identity](identities.md#missing-and-ambiguous-identities) is missing or ambiguous | send it once; `WWW-Authenticate` is `Bearer` if a token is meant, else `APIKey`',
  invalid_cost: '413, or 400 | the request costs more than `max_cost`, or its cost header is no integer from 1',
  store_unavailable:
    '503 | the store is unavailable and the policy is `closed` | see [store outages](operations.md#store-outages)',
} satisfies Partial<Record<ProblemCode, Row>>

const REQUESTS = {
  ambiguous_path:
    '400 | parsers may read the [path](identities.md#matching-paths) differently | remove `//`, `;` and escaped signs; or set `LITERAL_IN_PATHS`',
  invalid_target: '400 | target and `Host` form no URL',
  url_too_long: '414 | a path above 4,500 characters, a URL above 8,190, over 1,000 parameters',
  invalid_connection:
    '400 | `Connection` names an end-to-end header such as `Authorization` | `npm run dev` removes `Connection`',
  too_many_headers: '431 | more than 100 headers',
  length_required:
    '411 | GET or HEAD with a body of unknown length, whose [bytes](policies.md#costs) a policy counts | send `Content-Length`; `npm run dev` removes such bodies',
  method_not_allowed: '405 | `TRACE`, which might show `Sluice-Secret`; or another wrong method | see `Allow`',
  not_found: '404 | nothing is at this path below `/_sluice`',
} satisfies Partial<Record<ProblemCode, Row>>

const GATEWAY = {
  client_closed_request: '499 | the client went before the response',
  internal_error: '500 | a fault of the gateway',
  misconfigured: '500 | a variable is invalid | `sluice check`',
  proxy_loop: '508 | `UPSTREAM_URL` leads back to the gateway',
  upstream_unreachable:
    '502 | the API is unreachable or sends invalid HTTP | see [troubleshooting](faq.md#troubleshooting)',
  upstream_timeout: '504 | the API is slower than `UPSTREAM_TIMEOUT_MS`',
} satisfies Partial<Record<ProblemCode, Row>>

const ADMIN = {
  unauthorized: '401, or 403 to proxies | the token is missing or wrong',
  too_many_attempts: '429 | too many wrong tokens',
  cross_origin: '403 | a browser sent it for another origin’s page',
  unknown_operation: '404 | no such operation',
  invalid_input: '400 | the body or a parameter is invalid | see `pointer`',
  unsupported_media_type: '415 | the body is not `application/json`',
  body_too_large: '413 | a body above 256 KiB',
  rules_disabled: '404 | `RULES` is not "on"',
  rules_invalid: '500 | the stored rules cannot be read | [roll back](rules.md)',
  rules_too_large: '413 | too many rules',
  statistics_disabled: '404 | `STATISTICS` is not "on"',
  version_conflict: '409 | the rules have changed meanwhile',
  version_not_found: '404 | the version is no longer stored',
} satisfies Partial<Record<ProblemCode, Row>>

/** The compiler checks that no code is left out. */
const ALL: Readonly<Record<ProblemCode, Row>> = { ...LIMITS, ...REQUESTS, ...GATEWAY, ...ADMIN }

const SECTIONS = { Limits: LIMITS, Requests: REQUESTS, 'Gateway and upstream': GATEWAY, 'Admin API': ADMIN }

const OPTIONS: Readonly<Record<OptionErrorCode, string>> = {
  MISSING_OPTION: 'a required variable, option or argument is missing',
  INVALID_OPTION: 'its value is not what was expected',
  UNKNOWN_OPTION: 'no option or policy key has this name',
  UNKNOWN_VARIABLE: 'a variable whose name is close to a known one',
  NEEDS_HOLD: '`take`, `takeUpTo` or `waitFor` on a limiter with slots, which `hold` takes',
  COST_TOO_HIGH: 'a call costs more than any may: if clients choose costs, answer 413',
}

const EVENTS: Readonly<Record<LogEvent, string>> = {
  store_error: 'the store failed; `answered` is the [fallback](operations.md#store-outages)',
  store_recovered: 'the store answers again; `place` is the database, or the node of a cluster, if it has several',
  late_decision: 'a decision came [too late](how-it-works.md#one-decision)',
  in_memory_store: 'counts are per process, or isolate (instance of the Worker)',
  refused: 'a [sampled refusal](observability.md#log-lines)',
  shadow_limited: 'shadow mode would have refused',
  shadow_blocked: 'shadow mode would have blocked',
  upstream_timeout: 'your API was too slow',
  upstream_unreachable: 'your API failed',
  untrusted_proxy:
    '`X-Forwarded-For` was sent, and is [not believed](middleware.md#addresses): all callers behind a proxy share its address',
  cost_untold: 'a response did not [tell its cost](actual-costs.md#what-is-untold), for this `reason`',
  counted_twice: 'a request passed one middleware [twice](middleware.md#warnings)',
  made_per_request: 'limiters are made [for each request](middleware.md#warnings)',
  unknown_identity: 'the function `identify` or `plan` told nothing of the first 100 requests',
  unknown_address: '[no address](middleware.md#addresses) is known, so callers share one',
  jwks_unavailable: 'the issuer’s keys could not be fetched',
  rules_active: '[rules](rules.md) took effect',
  rules_invalid: 'rules are unusable; the former stay',
  rules_read_failed: 'rules could not be read',
  rules_lost: 'rules are gone from the store',
  rules_copy_failed: 'rules could not be copied to the mirror',
  overrides_ignored: 'overrides fit no policy',
  mirror: 'decisions compared with the [mirror](operations.md#moving-to-another-store), once a minute',
  mirror_error: 'the mirror failed',
  mirror_recovered: 'it answers again',
  statistics_send_failed: 'counts wait to be sent',
  statistics_lost: 'counts were given up',
  analytics_write_failed: 'a data point was not written',
  admin_refused: 'an attempt with a wrong `ADMIN_TOKEN`',
  misconfigured: 'an invalid variable',
  background_error: 'a failure after the response, or of `onDecision`, `--on-decision` or `onWait`',
  unexpected_error: 'a fault of Sluice',
}

const INTRODUCTION = `# Errors

Each [problem](http.md#errors), \`OptionError\` and line of the [log](observability.md#log-events) has a stable code.

\`npm run errors-page\` writes this page.`

const SERVED_PAGE = 'src/gateway/app/errors-page.ts'

if (import.meta.main) {
  const pages = { 'docs/errors.md': renderErrorsPage(), [SERVED_PAGE]: renderServedPage() }
  writeGenerated(new Map(Object.entries(pages)), 'errors-page')
}

export function renderErrorsPage(): string {
  const sections = Object.entries(SECTIONS).map(([title, codes]) => {
    const rows = (Object.keys(codes) as (keyof typeof ALL)[]).map((code) => {
      const [status = '', ...reasons] = ALL[code].split(' | ')
      return [`\`${code}\``, status, reasons.join(': ')]
    })
    return `## ${title}\n\n${renderTable(['code', 'status', 'cause: what to do'], rows)}`
  })
  const options = `## Configuration and options\n\n${renderTable(['code', 'cause'], toRows(OPTIONS))}`
  const events = `## Log events\n\n${renderTable(['event', 'meaning'], toRows(EVENTS))}`
  return `${[INTRODUCTION, ...sections, options, events].join('\n\n')}\n`
}

/** A module with the problems as a page of HTML, for those who are refused: a row for each code. */
export function renderServedPage(): string {
  const rows = (codes: readonly string[]) =>
    codes.map((code) => {
      const cells = ALL[code as ProblemCode].split(' | ').map((text) => `<td>${toHtml(text)}</td>`)
      return `<tr id="${code}"><th scope="row"><code>${code}</code></th>${cells.join('')}</tr>`
    })
  const sections = Object.entries(SECTIONS).map(
    ([title, codes]) => `<h2>${title}</h2><table>${rows(Object.keys(codes)).join('')}</table>`,
  )
  const style =
    ':root{color-scheme:light dark;font-family:system-ui}body{max-width:60rem;margin:auto;padding:1rem}' +
    'th,td{padding:.3rem .6rem .3rem 0;text-align:left;vertical-align:top}:target{outline:2px solid}'
  const html =
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">' +
    `<title>Errors</title><style>${style}</style><h1>Errors</h1><p>What the <code>code</code> of an error means.</p>${sections.join('')}</html>`
  return `// Made of tools/errors-page.ts by \`npm run errors-page\`. Do not edit.\nexport const ERRORS_PAGE =\n  '${html}'\n`
}

/** Links lead to pages that only the repository has. */
function toHtml(markdown: string): string {
  return markdown
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/`([^`]*)`/g, '<code>$1</code>')
}

function toRows(codes: Readonly<Record<string, string>>): readonly string[][] {
  return Object.entries(codes).map(([code, meaning]) => [`\`${code}\``, meaning])
}
