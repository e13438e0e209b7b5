/** One cookie, many spellings: what any parser finds is what the caller is counted by, or he is counted as nobody. */
import fc from 'fast-check'
import { expect } from 'vitest'
import { readCookie } from '../../src/http/request/identity/cookie.ts'
import { decoded } from '../support/lenient-readings.ts'
import { fuzz } from './fuzz.ts'
import { fieldValueOf } from './strings.ts'

const NAME = 'sid'
type Pairs = readonly (readonly [name: string, value: string])[]

function pairsOf(field: string, separator: RegExp, read: (value: string) => string = (value) => value): Pairs {
  return field.split(separator).map((part) => {
    const at = part.indexOf('=')
    return at < 0 ? [part.trim(), ''] : [part.slice(0, at).trim(), read(part.slice(at + 1).trim())]
  })
}

function unquoted(value: string): string {
  return /^"(.*)"$/.exec(value)?.[1] ?? value
}

/** PHP's urldecode(). */
function urldecoded(value: string): string {
  return decoded(value.replaceAll('+', ' '))
}

const first = (pairs: Pairs, name = NAME) => pairs.find(([other]) => other === name)?.[1]
const last = (pairs: Pairs, name = NAME) => pairs.findLast(([other]) => other === name)?.[1]
const folded = (pairs: Pairs): Pairs => pairs.map(([name, value]) => [name.toLowerCase(), value])

/** http.cookies.SimpleCookie, in short. */
function simpleCookie(field: string): Pairs {
  const legal = "[\\w!#%&'~`><@,:/$*+.^|)(?}{=-]"
  const pattern = new RegExp(`\\s*(${legal}+?)\\s*=\\s*("(?:[^\\\\"]|\\\\.)*"|${legal}*)\\s*(?:\\s+|;|$)`, 'gy')
  return [...field.matchAll(pattern)].map(([, name = '', value = '']) => [name, unquoted(value)])
}

/** Models of what frameworks find. */
const PARSERS: Readonly<Record<string, (field: string) => string | undefined>> = {
  'Express, h3, Hono': (field) => first(pairsOf(field, /;/, (value) => decoded(unquoted(value)))),
  'older Rack': (field) => first(pairsOf(field, /[;,]\s*/, urldecoded)),
  Django: (field) => last(pairsOf(field, /;/, unquoted)),
  'aiohttp, SimpleCookie': (field) => last(simpleCookie(field)),
  Go: (field) => first(pairsOf(field, /;/, unquoted)),
  'ASP.NET': (field) => last(folded(pairsOf(field, /;/, decoded))),
  PHP: (field) =>
    first(pairsOf(field, /;/, urldecoded).map(([name, value]) => [decoded(name).replaceAll('.', '_'), value])),
  'PHP, arrays': (field) => first(pairsOf(field, /;/).map(([name, value]) => [name.split('[', 1)[0] ?? '', value])),
  'RFC 2109': (field) =>
    last(
      pairsOf(
        field.replace(/"[^"]*"/g, (text) => text.replace(/[;,]/g, '_')),
        /[;,]/,
        unquoted,
      ),
    ),
  'Werkzeug before 2.2.3': (field) => last(pairsOf(field.replace(/(^|;)\s*=+/g, '$1'), /;/, unquoted)),
}

const PIECES = [
  ...[
    ...['sid=', 'sid', 'SID=', 's%69d=', 'sid[]=', '=sid='],
    '$sid=',
    ...['a=', 'sidecar=', ' ', '; ', ';', ',', '"', '=', '\\', '\t'],
  ],
  ...['X', 'Y', '%58', '%20', '+', '%2B', '%zz', 'a=1', '; sid=X', '; a=1', '; sid="X"', 'sid=X'],
]

fuzz(
  'readCookie() and ten parsers find the same, or it finds none',
  3_000,
  fc.property(
    fc.oneof(
      fieldValueOf(...PIECES),
      fc.array(fc.constantFrom(...PIECES), { maxLength: 6 }).map((parts) => parts.join('')),
    ),
    (field) => {
      const reading = readCookie(field, NAME)
      if (reading.kind === 'ambiguous') return
      const expected = reading.kind === 'value' ? reading.value : ''
      for (const [parser, read] of Object.entries(PARSERS)) {
        const found = read(field)?.trim()
        if (!found) continue
        const means = [found, unquoted(found), decoded(unquoted(found))].map((text) => text.replaceAll('+', ' ').trim())
        expect(means, `${parser}: ${JSON.stringify(found)}`).toContain(expected)
      }
    },
  ),
)
