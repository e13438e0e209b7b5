/** What APIs read in a request that is spelt oddly, each modelled on the source that is named, and requests to try them. */
import fc from 'fast-check'

/** The parts of a request that may hold an identity, each with a row in `HOLDERS`. */
export const KINDS = ['token', 'claim', 'cookie', 'header', 'query', 'form', 'json'] as const
export type Kind = (typeof KINDS)[number]

/** What an API reads in a field, a query or a body; undefined if it finds nothing. */
type Read = (text: string) => string | undefined
type Readers = readonly (readonly [name: string, read: Read])[]
type Pairs = readonly (readonly [name: string, value: string])[]

/** Authorization. */
const TOKEN: Readers = [
  [
    'whole words (Django REST framework, authentication.py)',
    (text) => (splitWords(text).length === 2 ? splitWords(text)[1] : undefined),
  ],
  ['the second word (passport-jwt, auth_header.js)', (text) => /(\S+)\s+(\S+)/.exec(text)?.[2]],
  ['the last word', (text) => splitWords(text).at(-1)],
  ["split(' ')[1]", (text) => text.split(' ')[1]],
  ['without its beginning (Go, strings.TrimPrefix)', (text) => text.replace(/^Bearer /, '')],
  ["replace('Bearer ', '')", (text) => text.replace('Bearer ', '')],
  ["replace('Bearer ', ''), Python", (text) => text.replaceAll('Bearer ', '')],
  ["split('Bearer ')[1]", (text) => text.split('Bearer ')[1]],
  ["split('Bearer')[1].trim()", (text) => text.split('Bearer')[1]?.trim()],
  ['Laravel (InteractsWithInput.php, bearerToken)', readLaravelToken],
  ['Guardian (VerifyHeader)', (text) => /bearer:? +(.*)$/i.exec(text)?.[1]],
  ['Rails (http_authentication.rb, Token)', (text) => readRailsToken(text, /(?:,|;|\t)/)],
  ['Rails before 6.1.3.2 (the same)', (text) => readRailsToken(text, /(?:,|;|\t+)/)],
  ['Rack (auth/abstract/request.rb, params)', (text) => text.replace(/^\S+ +/, '')],
  [
    'firebase/php-jwt (JWT.php, urlsafeB64Decode), of the signature',
    (text) => readSignedToken(text.replace(/^\S+ /, '')),
  ],
  ['parameters in quotes (RFC 9110 §11.4; Werkzeug, parse_dict_header)', readTokenParameter],
]

function splitWords(text: string): readonly string[] {
  // Python's str.split() takes some control characters for white space.
  return text.split(/[\s\p{Cc}]+/u).filter(Boolean)
}

function normalizeBase64(word: string): string {
  return Buffer.from(word.replace(/[^A-Za-z\d+/]/g, ''), 'base64').toString('base64')
}

function readSignedToken(word: string): string | undefined {
  const [header, payload, signature, ...others] = word.split('.')
  if (signature === undefined || others.length > 0) return undefined
  return [header, payload, Buffer.from(signature.replace(/[^\w-]/g, ''), 'base64url').toString('base64url')].join('.')
}

function readLaravelToken(text: string): string | undefined {
  const at = text.toLowerCase().lastIndexOf('bearer ')
  return at < 0 ? undefined : text.slice(at + 7).split(',', 1)[0]
}

function readRailsToken(text: string, delimiters: RegExp): string | undefined {
  if (!/^(?:Token|Bearer)\s+/.test(text)) return undefined
  const raw = text
    .replace(/^(?:Token|Bearer)\s+/, '')
    .split(new RegExp(`\\s*${delimiters.source}\\s*`))
    .filter(Boolean)
  const first = raw[0]?.startsWith('token=') ? raw[0] : `token=${raw[0] ?? ''}`
  return first.slice(6).replace(/^"|"$/g, '')
}

function readTokenParameter(text: string): string | undefined {
  const [, quoted, bare] = /(?:^|[\s,])token\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))/i.exec(text) ?? []
  return quoted?.replace(/\\(.)/g, '$1') ?? bare
}

/** Cookie. */
const COOKIE: Readers = [
  [
    'cookie 0.7 and cookie-parser (JSONCookies), Express',
    (text) => readJsonCookie(first(splitPairs(text, /;/, plain))),
  ],
  ['cookie-es, h3; hono/utils/cookie', (text) => first(splitPairs(text, /;/, plain))],
  ['PHP (main/php_variables.c)', (text) => first(splitPhpCookies(text, (name) => name))],
  ['PHP before 7.4.11, which decodes names', (text) => first(splitPhpCookies(text, decodeUrl))],
  ['PHP, arrays', (text) => first(splitPairs(text, /;/, decodeUrl).map(([name, value]) => [toListName(name), value]))],
  ['Rack 3 (utils.rb, parse_cookies_header)', (text) => first(splitPairs(text, /; */, decodeUrl, (name) => name))],
  ['Rack 1 (the same)', (text) => first(splitPairs(text, /[;,] */, decodeUrl, decodeUrl))],
  ['http.cookies of Python (SimpleCookie)', (text) => last(splitSimpleCookies(text))],
  ['Django, Starlette (parse_cookie)', (text) => last(splitPairs(text, /;/, unslash))],
  ['Werkzeug 3 (sansio/http.py, parse_cookie)', (text) => first(splitPairs(text, /;/, unslash))],
  ['Werkzeug 2 (the same, with quotes)', (text) => first(splitWerkzeug2(text))],
  ['Werkzeug before 2.2.3', (text) => last(splitPairs(text.replace(/(^|;)\s*=+/g, '$1'), /;/, unquote))],
  [
    'sessions of Flask (itsdangerous, base64_decode)',
    (text) => readFlaskSession(first(splitPairs(text, /;/, unslash))),
  ],
  ['net/http of Go (readCookies)', (text) => first(splitPairs(text, /;/, unquote))],
  ['ASP.NET Core (RequestCookieCollection)', (text) => last(foldNames(splitPairs(text, /;/, decode)))],
  [
    'CGI::Cookie, Dancer2 (a list)',
    (text) => first(splitPairs(text, /;/, (value) => decodeUrl(value).split('&', 1)[0] ?? '')),
  ],
  ['RFC 2109 (Tomcat, LegacyCookieProcessor)', readRfc2109],
]

/** Splits off names at the first "=", and trims, as most do. */
function splitPairs(
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

export const COOKIE_NAME = 'my_sid'
const first = (pairs: Pairs, name = COOKIE_NAME) => pairs.find(([other]) => other === name)?.[1]
const last = (pairs: Pairs, name = COOKIE_NAME) => pairs.findLast(([other]) => other === name)?.[1]
const foldNames = (pairs: Pairs): Pairs => pairs.map(([name, value]) => [name.toLowerCase(), value])
const toListName = (name: string) => name.split('[', 1)[0] ?? ''
export const unquote = (value: string) => /^"(.*)"$/.exec(value)?.[1] ?? value
const plain = (value: string) => decode(unquote(value))

export function decode(value: string): string {
  try {
    return decodeURIComponent(value)
  } catch {
    return value
  }
}

/** PHP's urldecode() and Ruby's decode_www_form_component: what is no escape stays. */
function decodeUrl(value: string): string {
  const bytes = value.replaceAll('+', ' ').replace(/%([\da-f]{2})/gi, (_, hex) => toLetter(hex, 16))
  return Buffer.from(bytes, 'latin1').toString()
}

function toLetter(digits: string, radix: number): string {
  return String.fromCharCode(Number.parseInt(digits, radix) & 255)
}

/** Express reads a cookie that begins with "j:" as JSON. */
function readJsonCookie(value: string | undefined): string | undefined {
  if (!value?.startsWith('j:')) return value
  try {
    return String(JSON.parse(value.slice(2)))
  } catch {
    return value
  }
}

function splitPhpCookies(text: string, readName: (name: string) => string): Pairs {
  return splitPairs(text, /;/, decodeUrl, (name) => toPhpName(readName(name.replace(/^\s+/, ''))))
}

/** A bracket that is not closed is one more underscore. */
function toPhpName(name: string): string {
  const read = name.replace(/^ +/, '').replace(/\0.*/s, '')
  return read.includes(']') ? toListName(read).replace(/[ .]/g, '_') : read.replace(/[ .[]/g, '_')
}

/** http.cookies._unquote: only what is in quotes has escapes. */
function unslash(value: string): string {
  if (!/^".*"$/.test(value) || value.length < 2) return value
  return value
    .slice(1, -1)
    .replace(/\\([0-3][0-7]{2}|.)/g, (_, said: string) => (said.length > 1 ? toLetter(said, 8) : said))
}

/** The pattern of CPython, without the special case for dates. */
function splitSimpleCookies(text: string): Pairs {
  const legal = "[\\w!#%&'~`><@,:/$*+.^|)(?}{=-]"
  const values = legal.replace('=-', '=\\[\\]-')
  const pattern = new RegExp(`\\s*(${legal}+?)(?:\\s*=\\s*("(?:[^\\\\"]|\\\\.)*"|${values}*))?\\s*(?:\\s+|;|$)`, 'gy')
  const pairs: [string, string][] = []
  for (const [, name = '', value] of text.matchAll(pattern)) if (value !== undefined) pairs.push([name, unslash(value)])
  return pairs
}

/** Its signature is decoded by Python's urlsafe_b64decode(), which skips what is not of the alphabet, and spare bits. */
function readFlaskSession(cookie = ''): string | undefined {
  const [, signed, signature = ''] = /^([\w-]*\.?[\w-]+\.[\w-]+)\.([^.]*)$/.exec(cookie) ?? []
  const bytes = Buffer.from(signature.replace(/[^\w-]/g, ''), 'base64url')
  return signed && `${signed}.${bytes.toString('base64url')}`
}

function splitWerkzeug2(text: string): Pairs {
  const pattern = /([^=;]*)(?:\s*=\s*("(?:[^\\"]|\\.)*"|.*?))?\s*;\s*/g
  return [...`${text};`.matchAll(pattern)].map(([, name = '', value = '']) => [name.trim(), unslash(value.trim())])
}

function readRfc2109(text: string): string | undefined {
  const parts = text.match(/(?:[^;,"]|"(?:[^"\\]|\\.)*")+/g) ?? []
  const pairs = parts.flatMap((part) => splitPairs(part, /$^/, (value) => unquote(value).replace(/\\(.)/g, '$1')))
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
  ['PHP (main/php_variables.c), the last', (text) => last(splitPhpParameters(text), 'api_key')],
  ['Rack (query_parser.rb) with ";", the last', (text) => last(splitParameters(text, /[&;] */, decodeUrl), 'api_key')],
  [
    'Python before 3.10, Perl (CGI.pm), the first',
    (text) => first(splitParameters(text, /[&;]/, decodeUrl), 'api_key'),
  ],
  ['qs, Express: lists of one', (text) => first(unwrapLists(splitParameters(text, /&/, decodeUrl)), 'api_key')],
  ['ASP.NET (HttpUtility), %u0041', (text) => first(foldNames(splitParameters(text, /&/, decodeAsp)), 'api_key')],
  ['what ends at a NUL', (text) => first(splitParameters(text, /&/, decodeUrl), 'api_key')?.split('\0', 1)[0]],
]

function splitParameters(text: string, separators: RegExp, read: (text: string) => string): Pairs {
  return splitPairs(text, separators, read, read)
}

function splitPhpParameters(text: string): Pairs {
  return splitParameters(text, /&/, decodeUrl).map(([name, value]) => [toPhpName(name), value])
}

function unwrapLists(pairs: Pairs): Pairs {
  return pairs.map(([name, value]) => [name.replace(/^\[([^\]]*)\]/, '$1').replace(/\[\d*\]$/, ''), value])
}

function decodeAsp(text: string): string {
  return decodeUrl(text.replace(/%u00([\da-f]{2})/gi, '%$1'))
}

/** A body of JSON. */
const JSON_READERS: Readers = [
  ['JSON.parse', (text) => findLastMember(text, (name) => name === 'api_key')],
  ['the first of a name', (text) => splitMembers(text).find(([name]) => name === 'api_key')?.[1]],
  [
    'encoding/json of Go, whatever the case',
    (text) => findLastMember(text, (name) => name.toLowerCase() === 'api_key'),
  ],
  ['protocol buffers, apiKey', (text) => findLastMember(text, (name) => /^api_?key$/i.test(name))],
]

function findLastMember(text: string, isMeant: (name: string) => boolean): string | undefined {
  return splitMembers(text).findLast(([name]) => isMeant(name))?.[1]
}

/** Of one object whose members are scalars, as far as it is JSON; some do not look at what comes after it. */
function splitMembers(text: string): Pairs {
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

/** Mostly the first, which is the plain one. */
function preferPlain<T>(plain: T, ...others: readonly T[]): fc.Arbitrary<T> {
  return fc.oneof({ arbitrary: fc.constant(plain), weight: 3 }, { arbitrary: fc.constantFrom(...others), weight: 2 })
}

type Respell = (letter: string) => string
const toHex = (letter: string) => letter.charCodeAt(0).toString(16).padStart(2, '0')
const PERCENT: Respell = (letter) => `%${toHex(letter)}`
const PERCENT_U: Respell = (letter) => `%u00${toHex(letter)}`
const OCTAL: Respell = (letter) => `\\${letter.charCodeAt(0).toString(8).padStart(3, '0')}`
const SLASH: Respell = (letter) => (/\w/.test(letter) ? `\\${letter}` : letter)
const JSON_ESCAPE: Respell = (letter) => `\\u00${toHex(letter)}`
const PERCENT_JSON: Respell = (letter) =>
  [...JSON_ESCAPE(letter)].map((each) => (each === '\\' ? '%5c' : each)).join('')

/** A text of which one letter or all may be written in another way. */
function respell(text: string, ...ways: readonly Respell[]): fc.Arbitrary<string> {
  return fc
    .record({ way: preferPlain<Respell>((letter) => letter, ...ways), at: fc.nat({ max: 2 * text.length }) })
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

function spellTokens(value: string): fc.Arbitrary<string> {
  const scheme = preferPlain(
    'Bearer ',
    ...['bearer  ', 'Token ', 'token ', 'Bearer: ', 'Bearer\t', 'Bearer', 'xBearer ', 'x Bearer ', 'Bearer x', 'Junk '],
    ...['', 'Bearer ,', 'Bearer ;', 'Basic x, Bearer ', 'Bearer Bearer ', 'JWT '],
  )
  const name = preferPlain('', 'token=', 'Token=', 'token =', 'token= ', 'token=token=', 'x=1;token=')
  const quote = preferPlain('', '"')
  const spelt = joined(scheme, name, quote, respell(value, SLASH), quote, preferPlain('', ...TAILS))
  return withSlips(spelt, 'Bearer ', 'Bearer', ' ', '"', ';', '\\', 'token=', '!', '!', '=', '~')
}

function spellCookies(value: string): fc.Arbitrary<string> {
  const before = preferPlain(
    ...['', 'a=1; ', 'a=1;', 'a=1, ', 'a=1 ', 'a="1; ', 'my_sid=x; ', 'a; ', ';', ' ', '='],
    '$Version=1; ',
  )
  const name = preferPlain(
    'my_sid',
    ...['my sid', 'my.sid', 'my[sid', ' my.sid', 'MY_SID', 'my%5Fsid', 'my_sid[]', '"my_sid"', 'm%79.sid', 'my+sid'],
  )
  const sign = preferPlain('=', '= ', ' =', ' = ', '=\t', '\t=', '==', '=  ')
  const opened = preferPlain('', '"', 'j:"', 'j:%22', 'j:%20%22', '"j:%22', 'j: "', 'j:')
  const closed = preferPlain('', '"', '%22', '%22"', '%20')
  const after = preferPlain(
    '',
    '; a=1',
    ';',
    ', a=1',
    ' a=1',
    '; my_sid=x',
    '; my sid=x',
    ' ',
    '%00x',
    ' x',
    '"',
    '&1',
    '%261',
  )
  const spelt = respell(value, PERCENT, OCTAL, SLASH, PERCENT_JSON, JSON_ESCAPE)
  return withSlips(
    joined(before, name, sign, opened, spelt, closed, after),
    ...[' ', '"', ';', ',', '\\', '+', '%', '\t', '=', '!', '~', '&'],
  )
}

function spellParameters(value: string): fc.Arbitrary<string> {
  const before = preferPlain('', 'a=1&', 'a=1;', '&', '?', 'api_key=x&', 'API_KEY=x&', '[api_key]=x&', ';')
  const name = preferPlain(
    'api_key',
    ...['api.key', 'api key', 'api+key', 'api[key', 'API_KEY', 'api%5Fkey', 'api_key[]', 'api_key[0]', '[api_key]'],
    ...['+api_key', 'api_key%00x', '%u0061pi_key', 'api%u005Fkey', 'api%u005fkey'],
  )
  const after = preferPlain('', '&a=1', ';a=1', '&api_key=x', ';api_key=x', '%00', '%00x', '%20', '+', '%0A')
  const spelt = joined(before, name, fc.constant('='), respell(value, PERCENT, PERCENT_U), after)
  return withSlips(spelt, '&', ';', '=', '%', '+', '[', ']', '%00')
}

function spellBodies(value: string): fc.Arbitrary<string> {
  const name = preferPlain('api_key', 'API_KEY', 'apiKey', 'api-key', '\\u0061pi_key', 'other')
  const member = joined(
    fc.constant('"'),
    name,
    fc.constantFrom('":', '" : '),
    fc.oneof(
      { arbitrary: respell(value, JSON_ESCAPE).map((text) => `"${text}"`), weight: 3 },
      fc.constantFrom('"x"', '1', 'null'),
    ),
  )
  const members = fc.array(member, { minLength: 1, maxLength: 3 }).map((all) => all.join(','))
  const spelt = joined(preferPlain('{', '\ufeff{', ' {\n'), members, preferPlain('}', '}}', '} x', ',}', '}{}'))
  return withSlips(spelt, ' ', ',', '\\', '"', '\0')
}

function spellFields(value: string): fc.Arbitrary<string> {
  const spelt = joined(preferPlain('', ' ', 'x, ', 'x,', ','), fc.constant(value), preferPlain('', ', x', ','))
  return withSlips(spelt, ',', '\t')
}

/** What a spelling is sent as. */
export interface Spelt {
  readonly query: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

/** A request as an API gets it. */
interface Arrived {
  readonly headers: Pick<Headers, 'get'>
  readonly query: string
  readonly body: string
}

interface Holder {
  /** The identity by which policies count, and that rules name. */
  readonly by: string
  readonly readers: Readers
  /** Spellings of a value of which some reader may make the value. */
  readonly spell: (value: string) => fc.Arbitrary<string>
  /** The spelling that all read alike. */
  readonly spellPlainly: (value: string) => string
  readonly toRequest: (spelling: string) => Spelt
  readonly findText: (request: Arrived) => string
}

function inField(name: string): Pick<Holder, 'toRequest' | 'findText'> {
  return {
    toRequest: (spelling) => ({ query: '', headers: { [name]: spelling } }),
    findText: ({ headers }) => headers.get(name) ?? '',
  }
}

function inBody(type: string): Pick<Holder, 'toRequest' | 'findText'> {
  return {
    toRequest: (spelling) => ({ query: '', headers: { 'Content-Type': type }, body: spelling }),
    findText: ({ body }) => body,
  }
}

const CLAIM: Holder = {
  by: 'claim:sub',
  readers: TOKEN,
  spell: spellTokens,
  spellPlainly: (value) => `Bearer ${value}`,
  ...inField('Authorization'),
}
const QUERY: Holder = {
  by: 'query:api_key',
  readers: PARAMETERS,
  spell: spellParameters,
  spellPlainly: (value) => `api_key=${value}`,
  toRequest: (spelling) => ({ query: spelling, headers: {} }),
  findText: ({ query }) => query,
}

export const HOLDERS: Readonly<Record<Kind, Holder>> = {
  token: {
    ...CLAIM,
    by: 'token',
    readers: [...TOKEN, ['base64_decode() of PHP, of Basic', (text) => normalizeBase64(text.replace(/^\S+ /, ''))]],
  },
  claim: CLAIM,
  cookie: {
    by: 'cookie:my_sid',
    readers: COOKIE,
    spell: spellCookies,
    spellPlainly: (value) => `my_sid=${value}`,
    ...inField('Cookie'),
  },
  header: {
    by: 'header:x-api-key',
    readers: HEADER,
    spell: spellFields,
    spellPlainly: (value) => value,
    ...inField('X-Api-Key'),
  },
  query: QUERY,
  form: { ...QUERY, by: 'form:api_key', ...inBody('application/x-www-form-urlencoded') },
  json: {
    by: 'json:/api_key',
    readers: JSON_READERS,
    spell: spellBodies,
    spellPlainly: (value) => JSON.stringify({ api_key: value }),
    ...inBody('application/json'),
  },
}
