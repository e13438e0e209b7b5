import fc from 'fast-check'
import { expect } from 'vitest'
import { parseBy } from '../../src/core/model/identity-source.ts'
import { parseDuration, parseLimits } from '../../src/core/model/limits.ts'
import type { Pattern } from '../../src/core/model/policy.ts'
import { isLoop } from '../../src/gateway/app/proxy.ts'
import { findPossibleTokens, findPossibleValues } from '../../src/gateway/rules/possible-values.ts'
import { readCallerAddress } from '../../src/http/request/identity/address.ts'
import { readAuthorization } from '../../src/http/request/identity/authorization.ts'
import { readCookie } from '../../src/http/request/identity/cookie.ts'
import { readParameter } from '../../src/http/request/identity/reading.ts'
import { canonicalizePath } from '../../src/http/request/policy/canonical-path.ts'
import { PatternRouter, parsePattern } from '../../src/http/request/policy/pattern.ts'
import { readMethods } from '../../src/http/request/received-request.ts'
import { createPathReader } from '../../src/http/request/target.ts'
import { removeHopByHop } from '../../src/http/response/forwarded-headers.ts'
import { fuzz } from './fuzz.ts'

// What takes time by the square of its input would be at it for minutes here: a stranger must not be able to ask for that.

const LENGTH = 200_000
/** Of processor time, whatever else the machine does: what takes time in proportion needs some milliseconds. */
const PATIENCE_MS = 2_000

const router = new PatternRouter<string>()
for (const text of ['/a/*/b/*/c/*', '/:a/:b/:c/:d/x', '*', '/a/a/a/*', 'GET /(a+)+/$', '/%41/a.b/*']) {
  router.add(parsePattern(text) as Pattern, text)
}

const readPath = createPathReader()
const readFields = (text: string) => ({
  request: {
    ...{ method: 'GET', url: 'http://gateway.example/', body: null, clone: () => ({ body: null }) },
    headers: { get: () => text, has: () => true },
  },
  ...{ route: '', ipv6Prefix: 64, context: { waitUntil() {} } },
})
const READERS: Record<string, (text: string) => unknown> = {
  parsePattern,
  parseLimits,
  parseDuration,
  parseBy,
  readAuthorization,
  'readAuthorization of one word': (text) => readAuthorization(`Bearer ${text.replaceAll(/\s/g, '')}`),
  readParameter: (text) => readParameter(text, 'a'),
  readCookie: (text) => readCookie(`a=${text.slice(0, 8_000)}`, 'a'),
  'valuesIn() of a token': (text) => findPossibleValues({ kind: 'token' }, readFields(text)),
  'valuesIn() of a cookie': (text) => findPossibleValues({ kind: 'cookie', name: 'a' }, readFields(text)),
  'valuesIn() of a header': (text) => findPossibleValues({ kind: 'header', name: 'a' }, readFields(text)),
  tokensIn: findPossibleTokens,
  'PatternRouter#match': (text) => router.match('GET', `/${text}`),
  canonicalizePath: (text) => canonicalizePath(`/${encodeURI(text)}`),
  'the path reader': (text) => readPath(`/${encodeURI(text).replaceAll('%25', '%')}`),
  'readMethods() of a query': (text) =>
    readMethods(new Request(`http://gateway.example/?${encodeURI(text).replaceAll('%25', '%')}`), ['GET']),
  'readMethods() of a field': (text) =>
    readMethods(new Request('http://gateway.example/', { headers: { 'X-HTTP-Method': text } }), ['GET']),
  isLoop: (text) => isLoop(text, 'sluice-1a2b3c4d'),
  removeHopByHop: (text) => removeHopByHop(new Headers({ Connection: text })),
  readCallerAddress: (text) => readCallerAddress({ headers: new Headers({ 'CF-Connecting-IP': text }) }, 64),
}

/** The same few characters over and over, with something else before and after. */
const piece = fc.constantFrom(
  ...[' ', '\t', '/', 'a', '/a', 'a/', '%', '%41', '.', '/.', ',', ', ', '1', '1/1s', '1/1s,', ':', ':1', '::', '0:'],
  ...['?_method', '&_method=', '_method=a', '+', '%20', '%25', '%252'],
  ...['GET ', '*', '/*', ';', ';a', '%2F', '%5c', '%00', 'header:x+', 'token+', '+', '-', '"', 'x-one,', '1 ', ' /'],
  ...['=', '==', 'eyJ.', 'YTpi', '_', '&a=', '[', ']', 'a="', ';a=', '\\', '\\1', 'bearer', '.e'],
)
const text = fc
  .tuple(piece, fc.tuple(piece, piece), piece)
  .map(([before, [one, other], after]) => `${before}${(one + other).repeat(LENGTH / (one + other).length)}${after}`)

fuzz(
  'no reader of what strangers or operators write takes long over long input',
  25,
  fc.property(fc.constantFrom(...Object.keys(READERS)), text, (name, text) => {
    const start = process.cpuUsage()
    READERS[name]?.(text)
    const { user, system } = process.cpuUsage(start)
    expect((user + system) / 1_000, name).toBeLessThan(PATIENCE_MS)
  }),
)
