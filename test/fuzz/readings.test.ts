import fc from 'fast-check'
import { expect } from 'vitest'
import type { RequestPolicy } from '../../src/core/model/policy.ts'
import { createDigest } from '../../src/core/runtime/digest.ts'
import { readRules } from '../../src/gateway/rules/document.ts'
import { RuleIndex } from '../../src/gateway/rules/rule-index.ts'
import { loadConfig } from '../../src/http/config/load-config.ts'
import { RequestChargeBuilder } from '../../src/http/request/charge-builder.ts'
import { foldValue } from '../../src/http/request/identity/fold.ts'
import { canonicalizePath } from '../../src/http/request/policy/canonical-path.ts'
import { PolicyFinder } from '../../src/http/request/policy/policy-finder.ts'
import { createPathReader } from '../../src/http/request/target.ts'
import { callContext } from '../support/call-context.ts'
import { makeCharge, makeChargeKey } from '../support/make-charge.ts'
import { readPlace } from '../support/read-place.ts'
import { fuzz } from './fuzz.ts'

/** What an API may do to a path, in any order and number, before it looks for who serves it. */
const STEPS: Readonly<Record<string, (path: string) => string>> = {
  'decodes once': decoded,
  'decodes all but slashes': (path) => path.replace(/%(?!2f)[\da-f]{2}/gi, decoded),
  'decodes %uXXXX': (path) => path.replace(/%u00([\da-f]{2})/gi, (_, hex) => decoded(`%${hex}`)),
  'cuts parameters of segments': (path) => path.replace(/;[^/]*/g, ''),
  'cuts at a semicolon': (path) => path.replace(/;.*/s, ''),
  'cuts at a NUL': (path) => path.replace(/(?:\0|%00).*/s, ''),
  'cuts at a query': (path) => path.replace(/\?.*/s, ''),
  'cuts at a fragment': (path) => path.replace(/#.*/s, ''),
  'cuts at a line end': (path) => path.replace(/[\r\n].*/s, ''),
  'drops control characters': (path) => path.replace(/[^ -\uffff]|\x7f/g, ''),
  'merges slashes': (path) => path.replace(/\/+/g, '/'),
  'resolves dot segments': resolved,
  'takes backslashes for slashes': (path) => path.replaceAll('\\', '/'),
  'takes two slashes for a host': (path) => path.replace(/^\/{2,}[^/]*/, '') || '/',
  'parses it as a URL does': (path) =>
    URL.canParse(path, 'http://api.example') ? new URL(path, 'http://api.example').pathname : path,
  'drops a slash at the end': (path) => path.replace(/(?<=.)\/$/, ''),
}

function decoded(path: string): string {
  return path.replace(/%([\da-f]{2})/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)))
}

function resolved(path: string): string {
  const segments: string[] = []
  for (const segment of path.split('/').slice(1)) {
    if (segment === '..') segments.pop()
    else if (segment !== '.') segments.push(segment)
  }
  return `/${segments.join('/')}`
}

const api = fc.array(fc.constantFrom(...Object.keys(STEPS)), { maxLength: 7 })

/** Every API merges what the gateway merges, in the end: another spelling of a path is none of its other paths. */
function servedBy(api: readonly string[], path: string): string {
  return canonicalizePath(api.reduce((read, name) => (STEPS[name] as (path: string) => string)(read), path))
}

const piece = fc.constantFrom(
  ...['/login', '/users', '/users/', '/a', '/v1', 'login', 'a', 'x', '/', '/', '//', '\\', '.', '..', '/..', '/../'],
  '/./',
  ...[';', ';x=1', '%2F', '%2f', '%5c', '%3B', '%3F', '%23', '%00', '%0A', '%09', '%7F', '%25', '%', '%2e', '%6C', 'l'],
  ...['%252F', '%252e', '%253b', '%2500', '%25%32%66', '%25252e', '%u002e', '%25u002e', '%C3%A9', '%E9', '%C0%AE'],
  '%20',
)
const target = fc.array(piece, { minLength: 1, maxLength: 8 }).map((pieces) => `/${pieces.join('')}`)

const PATTERNS = [
  ...['POST /login', 'GET /login', '/users/:id', 'DELETE /users/:id', '/v1/*', '/a/*/a', '/a/login', '/', '/x/x'],
]
const FINDERS = PATTERNS.map((match) => {
  const { policies } = loadConfig({
    UPSTREAM_URL: 'https://api.example.com',
    POLICIES: [{ name: 'guarded', limits: '5/1s', match }],
  })
  return new PolicyFinder(policies, [])
})
const readPath = createPathReader()

/** Whether an API would serve a path as what the pattern names. */
function isGuarded(finder: PolicyFinder, method: string, path: string): boolean {
  return isCharged(finder, method, { canonical: path, withSlash: path, ambiguity: undefined })
}

function isCharged(finder: PolicyFinder, method: string, path: ReturnType<typeof readPath>): boolean {
  const found = finder.find({ meant: [method], isCertain: true }, path)
  return found === 'ambiguous' || found.length > 0
}

fuzz(
  'whatever an API makes of a target: what it serves was charged, or the target was refused',
  4_000,
  fc.property(target, fc.array(api, { minLength: 8, maxLength: 8 }), (target, apis) => {
    const { pathname } = new URL(`https://gateway.example${target}`)
    const path = readPath(pathname)
    for (const api of apis) {
      const served = servedBy(api, pathname)
      FINDERS.forEach((finder, index) => {
        for (const method of ['GET', 'POST', 'DELETE']) {
          if (!isGuarded(finder, method, served)) continue
          const what = `${PATTERNS[index]} by ${JSON.stringify(path)}, served as ${served} by one that ${api.join(', ')}`
          expect(isCharged(finder, method, path), what).toBe(true)
        }
      })
    }
  }),
)

fuzz(
  'whatever an API makes of a target: it stays below the base path, or it was refused',
  2_000,
  fc.property(target, api, (target, api) => {
    const { pathname } = new URL(`https://gateway.example${target}`)
    const { ambiguity } = readPath(pathname)
    fc.pre(!ambiguity?.mayGoUp)
    const steps = api.filter((name) => !/as a URL|for a host/.test(name))
    expect(servedBy(steps, `/base${pathname}`), steps.join()).toMatch(/^\/base(?:$|[^\w])/)
  }),
)

/** Which bodies some APIs read a form from: by what they look at in a Content-Type, and as what they read it. */
const FORM_READERS: Readonly<Record<string, (type: string, body: string) => string | undefined>> = {
  'Rack: urlencoded, or no type': (type, body) => {
    return /^(?:|application\/x-www-form-urlencoded)$/.test(mediaType(type)) ? fieldIn(body) : undefined
  },
  'Rack: form-data, mixed and related': (type, body) => {
    return /^multipart\/(?:form-data|mixed|related)$/.test(mediaType(type)) ? partIn(body) : undefined
  },
  'koa-body: multipart of any kind': (type, body) => (/^multipart\//.test(mediaType(type)) ? partIn(body) : undefined),
  'Werkzeug 2.2: x-url-encoded': (type, body) => {
    return mediaType(type) === 'application/x-url-encoded' ? fieldIn(body) : undefined
  },
  'Bottle: all but multipart': (type, body) => (mediaType(type).startsWith('multipart/') ? undefined : fieldIn(body)),
  'formidable: multipart anywhere': (type, body) => (/multipart/i.test(type) ? partIn(body) : undefined),
  'formidable: urlencoded anywhere': (type, body) => (/urlencoded/i.test(type) ? fieldIn(body) : undefined),
  'one that looks for a boundary': (type, body) => (/boundary=/i.test(type) ? partIn(body) : undefined),
  'one that takes the last of several types': (type, body) => {
    return /,\s*application\/x-www-form-urlencoded$/i.test(type) ? fieldIn(body) : undefined
  },
}

function mediaType(type: string): string {
  return (type.split(/[;,]/, 1)[0] ?? '').trim().toLowerCase()
}

function fieldIn(body: string): string | undefined {
  return new URLSearchParams(body).get('user') ?? undefined
}

function partIn(body: string): string | undefined {
  return /name="?user"?\r\n\r\n([^\r]*)\r\n/.exec(body)?.[1]
}

const contentType = fc
  .tuple(
    fc.constantFrom(
      ...['application/x-www-form-urlencoded', 'Application/X-WWW-Form-URLEncoded', 'application/x-url-encoded', ''],
      ...['multipart/form-data', 'multipart/mixed', 'Multipart/Related', 'multipart/alternative', 'multipart/x'],
      ...['text/plain', 'application/json', 'image/png', 'application/octet-stream', 'application/x-none', 'form'],
      '*/*',
    ),
    fc.constantFrom(
      ...['', '', '; boundary=b', ';charset=utf-8', '; charset=utf-7', ', application/x-www-form-urlencoded'],
      ...['; x=multipart; boundary=b', '; urlencoded'],
    ),
  )
  .map((parts) => parts.join(''))
const PART = '--b\r\nContent-Disposition: form-data; name="user"\r\n\r\nada\r\n--b--\r\n'
const formBody = fc.constantFrom(
  ...[
    'user=ada',
    'n=1&user=ada',
    '%75ser=ada',
    `n=${'x'.repeat(9_000)}&user=ada`,
    '{"user":"ada"}',
    '{"a":"&user=ada"}',
  ],
  ...[PART, `${'x'.repeat(9_000)}\r\n${PART}`, 'x', '{}'],
)

function findRequest(type: string, body: string, address = '192.0.2.1'): Request {
  const request = new Request('https://gateway.example/', { method: 'POST', body: new TextEncoder().encode(body) })
  if (type !== '') request.headers.set('Content-Type', type)
  request.headers.set('CF-Connecting-IP', address)
  return request
}

fuzz(
  'whatever an API takes for a form: its field is the one that counts, or the body is spoilt',
  600,
  fc.asyncProperty(contentType, formBody, async (type, body) => {
    const request = findRequest(type, body)
    const reading = await readPlace('form', request, 'user')
    for (const [name, read] of Object.entries(FORM_READERS)) {
      const value = read(type, body)
      if (value === undefined) continue
      expect(reading, `by ${name}, in ${body.slice(0, 100)} of type "${type}"`).toEqual(
        reading.kind === 'value' ? { kind: 'value', value } : { kind: 'ambiguous' },
      )
    }
  }),
)

const BY_BODY = loadConfig({
  UPSTREAM_URL: 'https://api.example.com',
  ANONYMOUS: 'ip',
  POLICIES: ['form:user', 'json:/user', 'form:user+route'].map((by, index) => ({
    name: `p${index}`,
    limits: '5/1h',
    by,
  })),
})
const BY_BODY_MAKER = new RequestChargeBuilder(BY_BODY)

fuzz(
  'whatever the body, and from whatever address: an account has one key, or the request is refused',
  300,
  fc.asyncProperty(contentType, formBody, fc.ipV4(), async (type, body, address) => {
    // That of another account.
    fc.pre((fieldIn(body) ?? 'ada') === 'ada')
    const findKey = async (index: number, type: string, body: string, address: string) => {
      const request = findRequest(type, body, address)
      return makeChargeKey(BY_BODY_MAKER, BY_BODY.policies[index] as RequestPolicy, request, 'POST /')
    }
    for (const index of BY_BODY.policies.keys()) {
      const own = index === 1 ? '{"user":"ada"}' : 'user=ada'
      const known = await findKey(index, 'application/x-www-form-urlencoded', own, '192.0.2.1')
      expect(known).toContain('{')
      expect([known, 'unidentified']).toContain(await findKey(index, type, body, address))
    }
  }),
)

const COUNTED = loadConfig({
  UPSTREAM_URL: 'https://api.example.com',
  POLICIES: ['form:user', 'json:/user', 'ip+form:user'].flatMap((by, index) =>
    ['ip', 'skip'].map((anonymous) => ({ name: `${anonymous}${index}`, limits: '5/1h', by, anonymous })),
  ),
})
const COUNTED_MAKER = new RequestChargeBuilder(COUNTED)
const digest = createDigest(undefined)
const BLOCKS = [
  ['form:user', 'ada'],
  ['json:/user', 'ada'],
  ['ip', '192.0.2.1', 'form:user', 'ada'],
]
const BLOCKED_BOOK = new RuleIndex(readRules({ blocks: BLOCKS.map((parts) => ({ digest: digest(parts) })) }), COUNTED)

fuzz(
  'whatever API finds a blocked account in a body: the request is refused, also if only its digest is blocked',
  300,
  fc.asyncProperty(contentType, formBody, async (type, body) => {
    const readers = Object.values(FORM_READERS).map((read) => read(type, body))
    const inJson = /^\{"user"/.test(body)
    for (const [index, policy] of COUNTED.policies.entries()) {
      const isJson = policy.by[0]?.kind === 'json'
      if (isJson ? !inJson : !readers.includes('ada')) continue
      const request = findRequest(type, body)
      const made = await makeCharge(COUNTED_MAKER, policy, request, 'POST /')
      if (made === 'skip' || 'outcome' in made) throw new Error(`${policy.name} (${index}) applies not`)
      const orders = await BLOCKED_BOOK.match(request, 0, callContext())
      if (!orders || 'outcome' in orders) throw new Error('expected orders')
      const what = `${policy.name}: ${body.slice(0, 100)} of type "${type}"`
      expect(await orders.apply([made]), what).toMatchObject({ outcome: 'blocked', status: 403 })
      expect(await request.text()).toBe(body)
    }
  }),
)

/** What people and their keyboards make of an address, and an API takes for the same one. */
const TYPINGS: Readonly<Record<string, (text: string) => string>> = {
  'in capitals': (text) => text.toUpperCase(),
  'with a capital': (text) => text.slice(0, 1).toUpperCase() + text.slice(1),
  'with spaces around': (text) => ` ${text}\t `,
  // In a cookie, "+" is a space.
  'in letters of full width': (text) =>
    text.replace(/[!-*,-~]/g, (letter) => String.fromCharCode(letter.charCodeAt(0) + 0xfee0)),
  'with accents apart': (text) => text.normalize('NFD'),
  'with a space that does not break': (text) => `${text}\u00a0`,
  'with a long s': (text) => text.replace('s', 'ſ'),
}
const typed = fc.array(fc.constantFrom(...Object.keys(TYPINGS)), { maxLength: 5 })
const address = fc.constantFrom(
  ...['ada@example.com', 'sœur.é+1@example.com', 'straße@example.com', 'ι.σας@example.com', 'kiss@x.test'],
)

/** How each kind of identity is sent. */
const CARRIERS: Readonly<Record<string, (text: string) => Readonly<Record<string, string>>>> = {
  'query:email': (text) => ({ query: new URLSearchParams({ email: text }).toString() }),
  'form:email': (text) => ({
    type: 'application/x-www-form-urlencoded',
    body: `${new URLSearchParams({ email: text })}`,
  }),
  'json:/email': (text) => ({ type: 'application/json', body: JSON.stringify({ email: text }) }),
  'cookie:email': (text) => ({ cookie: `email=${encodeURIComponent(text)}` }),
  'claim:email': (text) => ({ claim: JSON.stringify(text) }),
  'header:x-contact': (text) => ({ field: /^[\t -~]*$/.test(text) ? text : '' }),
}
const FOLDED = loadConfig({
  UPSTREAM_URL: 'https://api.example.com',
  JWT_SECRET: 'planted-secret-'.padEnd(40, 'x'),
  POLICIES: Object.keys(CARRIERS).flatMap((by, index) =>
    [by, `token+${by}`].map((by, each) => ({
      name: `p${index}-${each}`,
      limits: '5/1h',
      by,
      anonymous: 'deny',
      fold: 'lower trim',
    })),
  ),
})
let claimed = ''
const FOLDED_MAKER = new RequestChargeBuilder({ ...FOLDED, readClaim: () => ({ kind: 'value', value: claimed }) })

fuzz(
  'however people type an address: where identities are folded, it is one caller by every kind of them',
  100,
  fc.asyncProperty(address, typed, async (address, steps) => {
    const spelling = steps.reduce((text, name) => (TYPINGS[name] as (text: string) => string)(text), address)
    for (const [index, policy] of FOLDED.policies.entries()) {
      const carry = Object.values(CARRIERS)[index >> 1] as (text: string) => Readonly<Record<string, string>>
      const findKey = async (text: string, token = 'Token') => {
        const { query = '', type = '', body, cookie, claim, field } = carry(text)
        const headers = new Headers({ Authorization: token, 'Content-Type': type })
        if (cookie !== undefined) headers.set('Cookie', cookie)
        if (field) headers.set('X-Contact', field)
        const url = `https://gateway.example/?${query}`
        const request = new Request(url, { method: 'POST', headers, ...(body !== undefined && { body }) })
        claimed = claim ?? ''
        return makeChargeKey(FOLDED_MAKER, policy, request)
      }
      const known = await findKey(address)
      // A field holds ASCII only.
      if (known === 'unidentified') continue
      expect([known, 'unidentified'], `${policy.name}: ${spelling}`).toContain(await findKey(spelling))
      expect(await findKey(`x${address}`)).not.toBe(known)
      // Tokens are as they are, whatever people type beside them.
      expect((await findKey(address, 'tOKEN')) === known).toBe(index % 2 === 0)
    }
  }),
)

fuzz(
  'foldValue() makes one text of all that differ in case, and leaves it as it is from then on',
  500,
  fc.property(fc.string({ unit: 'grapheme', maxLength: 20 }), (text) => {
    const folded = foldValue(text, 'lower trim')
    expect(foldValue(folded, 'lower trim')).toBe(folded)
    for (const other of [text.toUpperCase(), text.toLowerCase(), text.normalize('NFKD'), ` ${text}`]) {
      expect(foldValue(other, 'lower trim')).toBe(folded)
    }
    expect(foldValue(text, 'trim')).toBe(text.normalize('NFKC').trim())
  }),
)

const MARKS = ['\u0301', '\u0327', '\u200b', '\u00ad', '\ufe0f']
fuzz(
  'foldValue() makes one text of all that differ in accents, marks that nobody sees and the script of digits',
  500,
  fc.property(
    fc.string({ unit: 'grapheme', maxLength: 20 }),
    fc.nat(20),
    fc.constantFrom(...MARKS),
    (text, at, mark) => {
      const fold = 'lower trim accents'
      const folded = foldValue(text, fold)
      expect(foldValue(folded, fold)).toBe(folded)
      const letters = [...text.normalize('NFKC')]
      // After a letter: before it, a mark would belong to the one before.
      const marked = [...letters.slice(0, at), mark, ...letters.slice(at)].join('')
      const inOtherDigits = text.replace(/\d/g, (digit) => String.fromCodePoint(0x966 + Number(digit)))
      for (const other of [marked, inOtherDigits]) expect(foldValue(other, fold)).toBe(folded)
    },
  ),
)

fuzz(
  'foldValue() makes one number of all that PHP and MySQL take for it, and of what is none 0',
  500,
  fc.property(
    fc.nat(1_000_000),
    fc.constantFrom('', ' ', '+', '0', '00', ' +0'),
    fc.constantFrom('', ' ', '.', '.0', 'x', 'x0', '.0x', '.9', 'e0', 'e+0', 'e', ' or', '\u0301'),
    (id, before, after) => {
      expect(foldValue(`${before}${id}${after}`, 'numbers')).toBe(String(id))
      expect(foldValue(`x${before}${id}`, 'numbers')).toBe('0')
    },
  ),
)
