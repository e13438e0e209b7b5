/** One credential, many spellings: to whatever decoder, two that mean the same are one caller, or none. */
import fc from 'fast-check'
import { expect } from 'vitest'
import { readAuthorization } from '../../src/http/request/identity/authorization.ts'
import { fuzz } from './fuzz.ts'

/** What decoders take for one text; undefined if they refuse it. All but the first two are models. */
const DECODERS: Readonly<Record<string, (text: string) => Buffer | undefined>> = {
  'Node, base64': (text) => Buffer.from(text, 'base64'),
  'Node, base64url': (text) => Buffer.from(text, 'base64url'),
  'the Web': (text) => {
    try {
      return Buffer.from(atob(text), 'latin1')
    } catch {
      return undefined
    }
  },
  'PHP, not strict': (text) => decode(text.replaceAll('=', '')),
  'stops at padding': (text) => decode(text.split('=', 1)[0] ?? ''),
  'Python, not validating': python,
  'Python, urlsafe': (text) => python(fromUrlAlphabet(text)),
  'Go, but for padding': (text) => (/^[\w+/-]*=*$/.test(text) ? Buffer.from(text, 'base64') : undefined),
}

function fromUrlAlphabet(text: string): string {
  return text.replaceAll('-', '+').replaceAll('_', '/')
}

/** Leaves out what is not of the alphabet. */
function decode(text: string): Buffer {
  return Buffer.from(text.replace(/[^A-Za-z\d+/]/g, ''), 'base64')
}

/** CPython's binascii.a2b_base64: padding ends the text where it completes four letters, and is left out elsewhere. */
function python(text: string): Buffer | undefined {
  let letters = ''
  let pads = 0
  for (const letter of text) {
    if (letter === '=') {
      if (letters.length % 4 >= 2 && (letters.length % 4) + ++pads >= 4) return decode(letters)
    } else if (/[A-Za-z\d+/]/.test(letter)) {
      letters += letter
      pads = 0
    }
  }
  return letters.length % 4 === 0 ? decode(letters) : undefined
}

/** Changes at places: what is put in, or done to the letter there. */
const visible = fc.oneof(
  fc.constantFrom('=', '==', '=!=', '-', '_', '.', '~', '+', '/', '!', ':', '=junk', '==YTpi'),
  fc.stringMatching(/^[!-+\--~]{1,3}$/),
)
const edits = fc.array(
  fc.record({
    at: fc.oneof(fc.double({ min: 0, max: 1, noNaN: true }), fc.constant(1)),
    put: fc.oneof({ arbitrary: visible, weight: 3 }, fc.constant('')),
    /** Letters that are left out. */
    cut: fc.constantFrom(0, 0, 0, 1, 2),
    other: fc.boolean(),
  }),
  { maxLength: 4 },
)
const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'

function edited(text: string, changes: typeof edits extends fc.Arbitrary<infer T> ? T : never): string {
  return changes.reduce((text, { at, put, cut, other }) => {
    const index = Math.round(at * text.length)
    const before = text.slice(0, index)
    const next = text.slice(index + cut)
    const changed = other ? before.replaceAll('+', '-').replaceAll('/', '_') : before
    return changed + put + next
  }, text)
}

/** The same with other spare bits. */
function respelled(base64: string, step: number): string {
  const bare = base64.replace(/=+$/, '')
  const spare = bare.length % 4 === 2 ? 16 : bare.length % 4 === 3 ? 4 : 1
  const last = ALPHABET.indexOf(bare.at(-1) ?? 'A')
  return bare.slice(0, -1) + ALPHABET[last + (step % spare)] + base64.slice(bare.length)
}

const printable = fc.string({
  unit: fc.oneof(fc.constantFrom('é', '?', '>', '~', 'ÿ', '😀'), fc.string({ minLength: 1, maxLength: 1 })),
})
const userAndPassword = fc
  .tuple(fc.stringMatching(/^[a-z]{1,8}$/), printable)
  .map(([user, password]) => `${user}:${password}`)
const scheme = fc.constantFrom('Basic ', 'basic  ', 'Bearer ', 'Junk7 ', '')

/** @returns the value for the credential itself, that of the spelling, unless it is spoilt */
function expectOneOrNone(credential: string, spelling: string): void {
  const whole = readAuthorization(credential)
  expect(whole.kind, credential).toBe('value')
  const other = readAuthorization(spelling)
  if (other.kind === 'value') expect(other, `${credential} and ${spelling}`).toEqual(whole)
}

fuzz(
  'readAuthorization() takes two spellings of one user and password for one caller or none, whatever decodes them',
  4_000,
  fc.property(userAndPassword, scheme, fc.nat(), edits, (text, scheme, step, changes) => {
    const bytes = Buffer.from(text)
    const base64 = bytes.toString('base64')
    const spelling = edited(respelled(base64, step), changes)
    for (const decoded of Object.values(DECODERS)) {
      if (decoded(spelling)?.equals(bytes)) expectOneOrNone(`Basic ${base64}`, scheme + spelling)
    }
  }),
)

fuzz(
  'readAuthorization() takes two spellings of one signed token for one caller or none, whatever decodes its signature',
  2_000,
  fc.property(
    fc.uint8Array({ minLength: 1, maxLength: 96 }),
    scheme,
    fc.nat(),
    edits,
    (signature, scheme, step, changes) => {
      fc.pre(!/basic/i.test(scheme))
      const bytes = Buffer.from(signature)
      const signed = 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0'
      const spelling = edited(respelled(bytes.toString('base64'), step), changes)
      // It would end the signature.
      fc.pre(!spelling.includes('.'))
      for (const decoded of Object.values(DECODERS)) {
        // All of them translate the alphabet first, for that of JWTs is another.
        if (decoded(fromUrlAlphabet(spelling))?.equals(bytes)) {
          expectOneOrNone(`Bearer ${signed}.${bytes.toString('base64url')}`, `${scheme}${signed}.${spelling}`)
        }
      }
    },
  ),
)
