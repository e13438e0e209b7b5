/** What APIs read in a request that is spelt oddly, each modelled on the source that is named, and requests to try them. */
import fc from 'fast-check'

/** What may hold an identity. A kind is added with its names, readers and spellings. */
export const KINDS = ['token', 'claim', 'cookie', 'header', 'query', 'form', 'json'] as const
export type Kind = (typeof KINDS)[number]

/** What policies count by, and what blocks name. */
export const SOURCES: Readonly<Record<Kind, string>> = {
  token: 'token',
  claim: 'claim:sub',
  cookie: 'cookie:my_sid',
  header: 'header:x-api-key',
  query: 'query:api_key',
  form: 'form:api_key',
  json: 'json:/api_key',
}

/** What an API reads in a field, a query or a body; undefined if it finds nothing. */
export type Read = (text: string) => string | undefined

export interface LenientReader {
  readonly name: string
  readonly read: Read
}

type Readers = readonly (readonly [name: string, read: Read])[]
type Pairs = readonly (readonly [name: string, value: string])[]

/** Authorization. */
const TOKEN: Readers = [
  [
    'whole words (Django REST framework, authentication.py)',
    (text) => (wordsOf(text).length === 2 ? wordsOf(text)[1] : undefined),
  ],
  ['the second word (passport-jwt, auth_header.js)', (text) => /(\S+)\s+(\S+)/.exec(text)?.[2]],
  ['the last word', (text) => wordsOf(text).at(-1)],
  ["split(' ')[1]", (text) => text.split(' ')[1]],
  ['without its beginning (Go, strings.TrimPrefix)', (text) => text.replace(/^Bearer /, '')],
  ["replace('Bearer ', '')", (text) => text.replace('Bearer ', '')],
  ["replace('Bearer ', ''), Python", (text) => text.replaceAll('Bearer ', '')],
  ["split('Bearer ')[1]", (text) => text.split('Bearer ')[1]],
  ["split('Bearer')[1].trim()", (text) => text.split('Bearer')[1]?.trim()],
  ['Laravel (InteractsWithInput.php, bearerToken)', laravelToken],
  ['Guardian (VerifyHeader)', (text) => /bearer:? +(.*)$/i.exec(text)?.[1]],
  ['Rails (http_authentication.rb, Token)', (text) => railsToken(text, /(?:,|;|\t)/)],
  ['Rails before 6.1.3.2 (the same)', (text) => railsToken(text, /(?:,|;|\t+)/)],
  ['Rack (auth/abstract/request.rb, params)', (text) => text.replace(/^\S+ +/, '')],
  ['firebase/php-jwt (JWT.php, urlsafeB64Decode), of the signature', (text) => signedToken(text.replace(/^\S+ /, ''))],
  ['parameters in quotes (RFC 9110 §11.4; Werkzeug, parse_dict_header)', tokenParameter],
]

function wordsOf(text: string): readonly string[] {
  // Python's str.split() takes some control characters for white space.
  return text.split(/[\s\p{Cc}]+/u).filter(Boolean)
}

function base64Of(word: string): string {
  return Buffer.from(word.replace(/[^A-Za-z\d+/]/g, ''), 'base64').toString('base64')
}

function signedToken(word: string): string | undefined {
  const [header, payload, signature, ...others] = word.split('.')
  if (signature === undefined || others.length > 0) return undefined
  return [header, payload, Buffer.from(signature.replace(/[^\w-]/g, ''), 'base64url').toString('base64url')].join('.')
}

function laravelToken(text: string): string | undefined {
  const at = text.toLowerCase().lastIndexOf('bearer ')
  return at < 0 ? undefined : text.slice(at + 7).split(',', 1)[0]
}

function railsToken(text: string, delimiters: RegExp): string | undefined {
  if (!/^(?:Token|Bearer)\s+/.test(text)) return undefined
  const raw = text
    .replace(/^(?:Token|Bearer)\s+/, '')
    .split(new RegExp(`\\s*${delimiters.source}\\s*`))
    .filter(Boolean)
  const first = raw[0]?.startsWith('token=') ? raw[0] : `token=${raw[0] ?? ''}`
  return first.slice(6).replace(/^"|"$/g, '')
}

function tokenParameter(text: string): string | undefined {
  const [, quoted, bare] = /(?:^|[\s,])token\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))/i.exec(text) ?? []
  return quoted?.replace(/\\(.)/g, '$1') ?? bare
}

/** Cookie. */
const COOKIE: Readers = [
  ['cookie 0.7 and cookie-parser (JSONCookies), Express', (text) => jsonCookie(first(pairsOf(text, /;/, plain)))],
  ['cookie-es, h3; hono/utils/cookie', (text) => first(pairsOf(text, /;/, plain))],
  ['PHP (main/php_variables.c)', (text) => first(phpCookies(text, (name) => name))],
  ['PHP before 7.4.11, which decodes names', (text) => first(phpCookies(text, urldecoded))],
  ['PHP, arrays', (text) => first(pairsOf(text, /;/, urldecoded).map(([name, value]) => [toList(name), value]))],
  ['Rack 3 (utils.rb, parse_cookies_header)', (text) => first(pairsOf(text, /; */, urldecoded, (name) => name))],
  ['Rack 1 (the same)', (text) => first(pairsOf(text, /[;,] */, urldecoded, urldecoded))],
  ['http.cookies of Python (SimpleCookie)', (text) => last(simpleCookies(text))],
  ['Django, Starlette (parse_cookie)', (text) => last(pairsOf(text, /;/, unslashed))],
  ['Werkzeug 3 (sansio/http.py, parse_cookie)', (text) => first(pairsOf(text, /;/, unslashed))],
  ['Werkzeug 2 (the same, with quotes)', (text) => first(werkzeug2(text))],
  ['sessions of Flask (itsdangerous, base64_decode)', (text) => flaskSession(first(pairsOf(text, /;/, unslashed)))],
  ['net/http of Go (readCookies)', (text) => first(pairsOf(text, /;/, unquoted))],
  ['ASP.NET Core (RequestCookieCollection)', (text) => last(folded(pairsOf(text, /;/, decoded)))],
  ['RFC 2109 (Tomcat, LegacyCookieProcessor)', rfc2109],
]

/** Splits off names at the first "=", and trims, as most do. */
function pairsOf(
  text: string,
  separators: RegExp,
  readValue: (value: string) => string,
  readName = (name: string) => name.trim(),
): Pairs {
  return text.split(separators).map((part) => {
    const at = part.indexOf('=')
    return at < 0 ? [readName(part), ''] : [readName(part.slice(0, at)), readValue(part.slice(at + 1).trim())]
  })
}

const NAME = 'my_sid'
const first = (pairs: Pairs, name = NAME) => pairs.find(([other]) => other === name)?.[1]
const last = (pairs: Pairs, name = NAME) => pairs.findLast(([other]) => other === name)?.[1]
const folded = (pairs: Pairs): Pairs => pairs.map(([name, value]) => [name.toLowerCase(), value])
const toList = (name: string) => name.split('[', 1)[0] ?? ''
const unquoted = (value: string) => /^"(.*)"$/.exec(value)?.[1] ?? value
const plain = (value: string) => decoded(unquoted(value))

export function decoded(value: string): string {
  try {
    return decodeURIComponent(value)
  } catch {
    return value
  }
}

/** PHP's urldecode() and Ruby's decode_www_form_component: what is no escape stays. */
function urldecoded(value: string): string {
  const bytes = value.replaceAll('+', ' ').replace(/%([\da-f]{2})/gi, (_, hex) => letterOf(hex, 16))
  return Buffer.from(bytes, 'latin1').toString()
}

function letterOf(digits: string, radix: number): string {
  return String.fromCharCode(Number.parseInt(digits, radix) & 255)
}

/** Express reads a cookie that begins with "j:" as JSON. */
function jsonCookie(value: string | undefined): string | undefined {
  if (!value?.startsWith('j:')) return value
  try {
    return String(JSON.parse(value.slice(2)))
  } catch {
    return value
  }
}

function phpCookies(text: string, readName: (name: string) => string): Pairs {
  return pairsOf(text, /;/, urldecoded, (name) => {
    const read = readName(name.replace(/^\s+/, '')).replace(/^ +/, '').replace(/\0.*/s, '')
    // A bracket that is not closed is one more underscore.
    return read.includes(']') ? toList(read).replace(/[ .]/g, '_') : read.replace(/[ .[]/g, '_')
  })
}

/** http.cookies._unquote: only what is in quotes has escapes. */
function unslashed(value: string): string {
  if (!/^".*"$/.test(value) || value.length < 2) return value
  return value
    .slice(1, -1)
    .replace(/\\([0-3][0-7]{2}|.)/g, (_, said: string) => (said.length > 1 ? letterOf(said, 8) : said))
}

/** The pattern of CPython, without the special case for dates. */
function simpleCookies(text: string): Pairs {
  const legal = "[\\w!#%&'~`><@,:/$*+.^|)(?}{=-]"
  const values = legal.replace('=-', '=\\[\\]-')
  const pattern = new RegExp(`\\s*(${legal}+?)(?:\\s*=\\s*("(?:[^\\\\"]|\\\\.)*"|${values}*))?\\s*(?:\\s+|;|$)`, 'gy')
  const pairs: [string, string][] = []
  for (const [, name = '', value] of text.matchAll(pattern))
    if (value !== undefined) pairs.push([name, unslashed(value)])
  return pairs
}

/** Its signature is decoded by Python's urlsafe_b64decode(), which skips what is not of the alphabet, and spare bits. */
function flaskSession(cookie = ''): string | undefined {
  const [, signed, signature = ''] = /^([\w-]*\.?[\w-]+\.[\w-]+)\.([^.]*)$/.exec(cookie) ?? []
  const bytes = Buffer.from(signature.replace(/[^\w-]/g, ''), 'base64url')
  return signed && `${signed}.${bytes.toString('base64url')}`
}

function werkzeug2(text: string): Pairs {
  const pattern = /([^=;]*)(?:\s*=\s*("(?:[^\\"]|\\.)*"|.*?))?\s*;\s*/g
  return [...`${text};`.matchAll(pattern)].map(([, name = '', value = '']) => [name.trim(), unslashed(value.trim())])
}

function rfc2109(text: string): string | undefined {
  const parts = text.match(/(?:[^;,"]|"(?:[^"\\]|\\.)*")+/g) ?? []
  const pairs = parts.flatMap((part) => pairsOf(part, /$^/, (value) => unquoted(value).replace(/\\(.)/g, '$1')))
  return last(pairs)
}

/** A field of the API's own. */
const HEADER: Readers = [
  ['the whole field', (text) => text.trim()],
  ['the first of several', (text) => text.split(',')[0]?.trim()],
  ['the last of several', (text) => text.split(',').at(-1)?.trim()],
]

/** A query, or a form. */
const PARAMETERS: Readers = [
  ['URLSearchParams, the first', (text) => new URLSearchParams(text).get('api_key') ?? undefined],
  ['URLSearchParams, the last', (text) => new URLSearchParams(text).getAll('api_key').at(-1)],
  ['PHP (main/php_variables.c), the last', (text) => last(phpParameters(text), 'api_key')],
  ['Rack (query_parser.rb) with ";", the last', (text) => last(parametersOf(text, /[&;] */, urldecoded), 'api_key')],
  ['Python before 3.10, Perl (CGI.pm), the first', (text) => first(parametersOf(text, /[&;]/, urldecoded), 'api_key')],
  ['qs, Express: lists of one', (text) => first(lists(parametersOf(text, /&/, urldecoded)), 'api_key')],
  ['ASP.NET (HttpUtility), %u0041', (text) => first(folded(parametersOf(text, /&/, aspDecoded)), 'api_key')],
  ['what ends at a NUL', (text) => first(parametersOf(text, /&/, urldecoded), 'api_key')?.split('\0', 1)[0]],
]

function parametersOf(text: string, separators: RegExp, decode: (text: string) => string): Pairs {
  return pairsOf(text, separators, decode, (name) => decode(name))
}

function phpParameters(text: string): Pairs {
  return parametersOf(text, /&/, urldecoded).map(([name, value]) => {
    const read = name.replace(/^ +/, '').replace(/\0.*/s, '')
    return [read.includes(']') ? toList(read).replace(/[ .]/g, '_') : read.replace(/[ .[]/g, '_'), value]
  })
}

function lists(pairs: Pairs): Pairs {
  return pairs.map(([name, value]) => [name.replace(/^\[([^\]]*)\]/, '$1').replace(/\[\d*\]$/, ''), value])
}

function aspDecoded(text: string): string {
  return urldecoded(text.replace(/%u00([\da-f]{2})/gi, '%$1'))
}

/** A body of JSON. */
const JSON_READERS: Readers = [
  ['JSON.parse', (text) => lastMember(text, (name) => name === 'api_key')],
  ['the first of a name', (text) => membersOf(text).find(([name]) => name === 'api_key')?.[1]],
  ['encoding/json of Go, whatever the case', (text) => lastMember(text, (name) => name.toLowerCase() === 'api_key')],
  ['protocol buffers, apiKey', (text) => lastMember(text, (name) => /^api_?key$/i.test(name))],
]

function lastMember(text: string, isMeant: (name: string) => boolean): string | undefined {
  return membersOf(text).findLast(([name]) => isMeant(name))?.[1]
}

/** Of one object whose members are scalars, as far as it is JSON; some do not look at what comes after it. */
function membersOf(text: string): Pairs {
  const [, inner = ''] = /^[\s\ufeff]*\{(.*?)\}/s.exec(text) ?? []
  const pairs: [string, string][] = []
  for (const [, name = '', value = ''] of inner.matchAll(/("(?:[^"\\]|\\.)*")\s*:\s*("(?:[^"\\]|\\.)*"|[^\s,"]+)/g)) {
    try {
      pairs.push([JSON.parse(name), String(JSON.parse(value))])
    } catch {
      return []
    }
  }
  return pairs
}

const READERS: Readonly<Record<Kind, Readers>> = {
  token: [...TOKEN, ['base64_decode() of PHP, of Basic', (text) => base64Of(text.replace(/^\S+ /, ''))]],
  claim: TOKEN,
  cookie: COOKIE,
  header: HEADER,
  query: PARAMETERS,
  form: PARAMETERS,
  json: JSON_READERS,
}

export function readersOf(kind: Kind): readonly LenientReader[] {
  return READERS[kind].map(([name, read]) => ({ name, read }))
}

/** Mostly the first, which is the plain one. */
function mostly<T>(plain: T, ...others: readonly T[]): fc.Arbitrary<T> {
  return fc.oneof({ arbitrary: fc.constant(plain), weight: 3 }, { arbitrary: fc.constantFrom(...others), weight: 2 })
}

type Respell = (letter: string) => string
const hexOf = (letter: string) => letter.charCodeAt(0).toString(16).padStart(2, '0')
const PERCENT: Respell = (letter) => `%${hexOf(letter)}`
const PERCENT_U: Respell = (letter) => `%u00${hexOf(letter)}`
const OCTAL: Respell = (letter) => `\\${letter.charCodeAt(0).toString(8).padStart(3, '0')}`
const SLASH: Respell = (letter) => (/\w/.test(letter) ? `\\${letter}` : letter)
const JSON_ESCAPE: Respell = (letter) => `\\u00${hexOf(letter)}`
const PERCENT_JSON: Respell = (letter) =>
  [...JSON_ESCAPE(letter)].map((each) => (each === '\\' ? '%5c' : each)).join('')

/** A text of which one letter or all may be written in another way. */
function respelt(text: string, ...ways: readonly Respell[]): fc.Arbitrary<string> {
  return fc
    .record({ way: mostly<Respell>((letter) => letter, ...ways), at: fc.nat({ max: 2 * text.length }) })
    .map(({ way, at }) =>
      [...text].map((letter, index) => (at >= text.length || at === index ? way(letter) : letter)).join(''),
    )
}

/** Something that is put in anywhere, now and then. */
function withSlips(text: fc.Arbitrary<string>, ...pieces: readonly string[]): fc.Arbitrary<string> {
  const slip = fc.tuple(fc.double({ min: 0, max: 1, noNaN: true }), fc.constantFrom(...pieces))
  return fc
    .tuple(text, fc.oneof({ arbitrary: fc.constant([]), weight: 3 }, fc.array(slip, { maxLength: 2 })))
    .map(([text, slips]) =>
      slips.reduce((text, [share, piece]) => {
        const at = Math.round(share * text.length)
        return text.slice(0, at) + piece + text.slice(at)
      }, text),
    )
}

const joined = (...parts: readonly fc.Arbitrary<string>[]) => fc.tuple(...parts).map((parts) => parts.join(''))

const TAILS = [
  ...[';', ';1', '; n=1', ',', ',1', ', Bearer x', '\t1', ' 1', ';n="1"', '"', '\\', '=', ' ;x', '\x1c1', '\xa0'],
]

function tokens(value: string): fc.Arbitrary<string> {
  const scheme = mostly(
    'Bearer ',
    ...['bearer  ', 'Token ', 'token ', 'Bearer: ', 'Bearer\t', 'Bearer', 'xBearer ', 'x Bearer ', 'Bearer x', 'Junk '],
    ...['', 'Bearer ,', 'Bearer ;', 'Basic x, Bearer ', 'Bearer Bearer ', 'JWT '],
  )
  const name = mostly('', 'token=', 'Token=', 'token =', 'token= ', 'token=token=', 'x=1;token=')
  const quote = mostly('', '"')
  const spelt = joined(scheme, name, quote, respelt(value, SLASH), quote, mostly('', ...TAILS))
  return withSlips(spelt, 'Bearer ', 'Bearer', ' ', '"', ';', '\\', 'token=', '!', '!', '=', '~')
}

function cookies(value: string): fc.Arbitrary<string> {
  const before = mostly(
    ...['', 'a=1; ', 'a=1;', 'a=1, ', 'a=1 ', 'a="1; ', 'my_sid=x; ', 'a; ', ';', ' ', '='],
    '$Version=1; ',
  )
  const name = mostly(
    'my_sid',
    ...['my sid', 'my.sid', 'my[sid', ' my.sid', 'MY_SID', 'my%5Fsid', 'my_sid[]', '"my_sid"', 'm%79.sid', 'my+sid'],
  )
  const sign = mostly('=', '= ', ' =', ' = ', '=\t', '\t=', '==', '=  ')
  const opened = mostly('', '"', 'j:"', 'j:%22', 'j:%20%22', '"j:%22', 'j: "', 'j:')
  const closed = mostly('', '"', '%22', '%22"', '%20')
  const after = mostly('', '; a=1', ';', ', a=1', ' a=1', '; my_sid=x', '; my sid=x', ' ', '%00x', ' x', '"')
  const spelt = respelt(value, PERCENT, OCTAL, SLASH, PERCENT_JSON, JSON_ESCAPE)
  return withSlips(
    joined(before, name, sign, opened, spelt, closed, after),
    ...[' ', '"', ';', ',', '\\', '+', '%', '\t', '=', '!', '~'],
  )
}

function parameters(value: string): fc.Arbitrary<string> {
  const before = mostly('', 'a=1&', 'a=1;', '&', '?', 'api_key=x&', 'API_KEY=x&', '[api_key]=x&', ';')
  const name = mostly(
    'api_key',
    ...['api.key', 'api key', 'api+key', 'api[key', 'API_KEY', 'api%5Fkey', 'api_key[]', 'api_key[0]', '[api_key]'],
    ...['+api_key', 'api_key%00x', '%u0061pi_key', 'api%u005Fkey', 'api%u005fkey'],
  )
  const after = mostly('', '&a=1', ';a=1', '&api_key=x', ';api_key=x', '%00', '%00x', '%20', '+', '%0A')
  const spelt = joined(before, name, fc.constant('='), respelt(value, PERCENT, PERCENT_U), after)
  return withSlips(spelt, '&', ';', '=', '%', '+', '[', ']', '%00')
}

function bodies(value: string): fc.Arbitrary<string> {
  const name = mostly('api_key', 'API_KEY', 'apiKey', 'api-key', '\\u0061pi_key', 'other')
  const member = joined(
    fc.constant('"'),
    name,
    fc.constantFrom('":', '" : '),
    fc.oneof(
      { arbitrary: respelt(value, JSON_ESCAPE).map((text) => `"${text}"`), weight: 3 },
      fc.constantFrom('"x"', '1', 'null'),
    ),
  )
  const members = fc.array(member, { minLength: 1, maxLength: 3 }).map((all) => all.join(','))
  const spelt = joined(mostly('{', '\ufeff{', ' {\n'), members, mostly('}', '}}', '} x', ',}', '}{}'))
  return withSlips(spelt, ' ', ',', '\\', '"', '\0')
}

const SPELLINGS: Readonly<Record<Kind, (value: string) => fc.Arbitrary<string>>> = {
  token: tokens,
  claim: tokens,
  cookie: cookies,
  header: (value) =>
    withSlips(joined(mostly('', ' ', 'x, ', 'x,', ','), fc.constant(value), mostly('', ', x', ',')), ',', '\t'),
  query: parameters,
  form: parameters,
  json: bodies,
}

/** Spellings of a value of which some reader may make the value. */
export function spellingsOf(kind: Kind, value: string): fc.Arbitrary<string> {
  return SPELLINGS[kind](value)
}

/** The spelling that all read alike. */
export function plainSpellingOf(kind: Kind, value: string): string {
  switch (kind) {
    case 'token':
    case 'claim':
      return `Bearer ${value}`
    case 'cookie':
      return `my_sid=${value}`
    case 'header':
      return value
    case 'query':
    case 'form':
      return `api_key=${value}`
    case 'json':
      return JSON.stringify({ api_key: value })
  }
}

/** What a spelling is sent as. */
export interface Spelt {
  readonly query: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

export function sentAs(kind: Kind, spelling: string): Spelt {
  switch (kind) {
    case 'token':
    case 'claim':
      return { query: '', headers: { Authorization: spelling } }
    case 'cookie':
      return { query: '', headers: { Cookie: spelling } }
    case 'header':
      return { query: '', headers: { 'X-Api-Key': spelling } }
    case 'query':
      return { query: spelling, headers: {} }
    case 'form':
      return { query: '', headers: { 'Content-Type': 'application/x-www-form-urlencoded' }, body: spelling }
    case 'json':
      return { query: '', headers: { 'Content-Type': 'application/json' }, body: spelling }
  }
}
