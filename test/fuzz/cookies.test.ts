/** One cookie, many spellings: what any parser finds is what the caller is counted by, or it is counted as nobody. */
import fc from 'fast-check'
import { expect } from 'vitest'
import { readCookie } from '../../src/http/request/identity/cookie.ts'
import { COOKIE_NAME, decode, HOLDERS, unquote } from '../support/lenient-readings.ts'
import { fuzz } from './fuzz.ts'
import { readFieldValue } from './strings.ts'

const PIECES = [
  ...['my_sid=', 'my_sid', 'MY_SID=', 'my%5fsid=', 'my_sid[]=', '=my_sid=', '$my_sid=', 'a=', 'my_sidecar=', ' ', '; '],
  ...[';', ',', '"', '=', '\\', '\t', 'X', 'Y', '%58', '%20', '+', '%2B', '%zz', 'a=1', '; my_sid=X', '; a=1'],
  ...['; my_sid="X"', 'my_sid=X'],
]

fuzz(
  'readCookie() and parsers of frameworks find the same, or it finds none',
  3_000,
  fc.property(
    fc.oneof(
      readFieldValue(...PIECES),
      fc.array(fc.constantFrom(...PIECES), { maxLength: 6 }).map((parts) => parts.join('')),
    ),
    (field) => {
      const reading = readCookie(field, COOKIE_NAME)
      if (reading.kind === 'ambiguous') return
      const expected = reading.kind === 'value' ? reading.value : ''
      for (const [name, read] of HOLDERS.cookie.readers) {
        const found = read(field)?.trim()
        if (!found) continue
        const means = [found, unquote(found), decode(unquote(found))].map((text) => text.replaceAll('+', ' ').trim())
        expect(means, `${name}: ${JSON.stringify(found)}`).toContain(expected)
      }
    },
  ),
)
