/** What the gateway itself answers says nothing that a client has sent, and leads nowhere else. */
import fc from 'fast-check'
import { expect } from 'vitest'
import type { RefusalSettings } from '../../src/core/model/policy.ts'
import { type Refused, toWholeMs } from '../../src/core/model/verdict.ts'
import { rewriteLocation } from '../../src/gateway/app/rewrite-locations.ts'
import { loadConfig } from '../../src/http/config/load-config.ts'
import { createRefusal } from '../../src/http/response/refusal.ts'
import { fuzz } from './fuzz.ts'
import { anyText, readFieldValue } from './strings.ts'

const UPSTREAM_URL = 'https://api.example.com'

function makeVerdict(refusal: RefusalSettings, waitMs: number): Refused {
  const { policies } = loadConfig({ UPSTREAM_URL, POLICIES: [{ name: 'p', limits: '1/1h', refusal }] })
  const [policy] = policies
  if (!policy) throw new Error('no policy')
  const retryAfterMs = toWholeMs(waitMs)
  const state = { remaining: 0, resetMs: toWholeMs(1), retryAfterMs, isReserve: false }
  const limits = [{ ...state, policy, name: 'p-1h', limit: 1, windowMs: 3_600_000 }]
  return { outcome: 'limited', limits, violated: limits, retryAfterMs }
}

const accept = readFieldValue(
  ...['text/html', 'application/json', '*/*', 'text/*', ';', 'q=', '0.5', '1', '0', ',', ' ', '<b>', '"'],
)
const own = anyText.filter((text) => text !== '' && !text.includes('{retry_after}'))

fuzz(
  'createRefusal() says what the operator has written, with a number in it, to whatever header Accept',
  400,
  fc.asyncProperty(accept, own, fc.boolean(), fc.integer({ min: 1, max: 1e9 }), async (header, text, redirects, ms) => {
    const redirect = redirects ? 'https://example.com/upgrade' : undefined
    const refusal = {
      detail: `${text} {retry_after}`,
      html: `<p>{retry_after}</p>${text}`,
      ...(redirect && { redirect }),
    }
    const response = createRefusal(makeVerdict(refusal, ms), { get: () => header })
    const seconds = String(Math.ceil(ms / 1000))
    const page = response.headers.get('Content-Type') === 'text/html; charset=utf-8'
    const expected = page ? `<p>${seconds}</p>${text}` : `${text} ${seconds}`
    const body = await response.text()
    expect(page ? body : JSON.parse(body).detail).toBe(page ? expected.toWellFormed() : expected)
    expect([response.status, response.headers.get('Location')]).toEqual(
      page && redirect ? [303, redirect] : [429, null],
    )
    expect([response.headers.get('Retry-After'), response.headers.get('Cache-Control')]).toEqual([seconds, 'no-store'])
    // Who does not name HTML never gets it.
    if (!/text\/(?:html|\*)/i.test(header)) expect(page).toBe(false)
  }),
)

const host = fc.constantFrom('origin.internal', 'ORIGIN.internal:443', 'other.example', 'user@origin.internal', '')
const part = fc.constantFrom(
  ...['/', '//', '\\', '/v1', 'v1/', '..', '.', '%2e%2e', 'x', '?a=b', '#c', ':', '@', '%', ' ', 'é'],
)
const location = fc
  .tuple(
    fc.constantFrom('https:', 'http:', 'https://', 'http://', '//', '/\\', '', 'javascript:'),
    host,
    fc.array(part),
  )
  .map(([scheme, host, parts]) => scheme + host + parts.join(''))

fuzz(
  'rewriteLocation() leads to the gateway, and through it to where the location led',
  600,
  fc.property(
    location,
    fc.constantFrom('https://origin.internal', 'https://origin.internal/v1', 'http://origin.internal/v1/x'),
    fc.constantFrom('/', '/a/b?c', '//other.example/', '/v1/'),
    (location, upstreamUrl, requested) => {
      const rewritten = rewriteLocation(location, upstreamUrl, 'https://gateway.example', requested)
      if (rewritten === undefined) return
      const { origin, pathname, search, hash } = new URL(rewritten)
      expect(origin).toBe('https://gateway.example')
      const meant = new URL(location, upstreamUrl + requested)
      const reached = new URL(upstreamUrl + pathname + search)
      expect(meant.host).toBe('origin.internal')
      // A base path without a slash at the end is the root of the gateway.
      expect(reached.pathname.replace(/\/$/, '')).toBe(meant.pathname.replace(/\/$/, ''))
      expect([search, hash]).toEqual([meant.search, meant.hash])
    },
  ),
)
