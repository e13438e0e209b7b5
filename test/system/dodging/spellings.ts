/** Requests that some framework may take for one of the routes: a grammar, and mutations of what it gives. */
import { seededRandom } from '../../../tools/seeded-random.ts'

const HOST = 'gateway.example'

const METHODS = ['GET', 'POST', 'DELETE', 'HEAD', 'PUT', 'PATCH', 'OPTIONS', 'delete', 'Post', 'PROPFIND']
const IDS = ['7', 'ann', 'login', '%40me', 'a.b', 'a%2Fb', '%C3%BC', ':id', '*', '%00']

const BEFORE = [
  ...['//', '///', '/./', '/%2e/', '/%2E%2f', '/x/../', '/x/%2e%2e/', '/x%2F..%2F', '/x/..%2F', '/..;/', '/x/..;/'],
  ...['/;/', '/;a/'],
  ...['/%2F', '/%5C', '/\\', '\\', '/%252F', '//h/', '/h/', '/%20/', '/%00/', '/?/', '/%3F/', '/#/', '/%23/'],
  '/index.php/',
  ...[
    `http://${HOST}/`,
    `HTTP://${HOST}:80/`,
    'http://h//',
    `https://u@${HOST}/`,
    ...['http:/', 'http:', 'ftp://h/', '*/', '.', '%2F'],
  ],
]
const BETWEEN = [
  ...['//', '%2F', '%2f', '%252F', '%5C', '\\', '/./', '/%2e/', '/x/../', '/x/..;/', ';/', ';x=1/', '/;/', '/%00/'],
  ...['%00/', '%C0%AF', '%E2%88%95'],
]
const AFTER = [
  ...['/', '//', '/.', '/./', '/..', '/x/..', '/%2e', '/%2e%2e', '%2F', '%5C', '\\', '%252F', ';', ';x', ';x=1', ';/'],
  ...[';/x', ';/../x', '%3B', '%3Bx', '/;x'],
  ...[
    ...['?', '??', '?/', '?x=/../', '%3F', '%3Fx', '%3f/x', '#', '#/x', '%23', '%23x', '&x', '&', ',', ',x', '!', '~'],
    ...[':', '@', '=', '+'],
    '$',
    ...['*', '.', '../..', '%2e'],
  ],
  ...['.json', '.html', '.x', '.php', '%2ejson', '%00', '%00.png', '%0A', '%0D', '%0D%0A', '%09', '%20', '%20%20'],
  ...['%7F', '%85', '%A0', '%C2%A0', '%EF%BB%BF'],
  ...['%', '%2', '%zz', '%u002f', '%FF', '%C0%80', '%E2%80%8B', '%ED%A0%80', '%1F', '%08', '|', '^', '"', '<', '{'],
  ...['`', '\x7f', '\xe9', '\xa0'],
]
/** Letters that some fold or normalize into those of the routes. */
const LIKE: Readonly<Record<string, readonly string[]>> = {
  s: ['%C5%BF', '%EF%BD%93', '\\u0073', '%u0073'],
  i: ['%C4%B0', '%C4%B1', '%EF%BD%89'],
  l: ['%EF%BD%8C', '%C1%AC'],
  o: ['%EF%BD%8F', '%C2%BA'],
  u: ['%EF%BD%95', '%C1%B5'],
  e: ['%EF%BD%85', '%C1%A5'],
}
const QUERIES = [
  ...['_method=DELETE', '_method=delete', '_method=POST', '_method=GET', '%5Fmethod=DELETE', '_%6dethod=%44ELETE'],
  ...['_method[]=DELETE', '_method[0]=DELETE'],
  ...['_method=GET&_method=DELETE', '_method=DELETE&_method=GET', 'a=1;_method=DELETE', '_METHOD=DELETE'],
  ...['.method=DELETE', '+_method=DELETE', '_method=DELETE%20'],
  ...[
    ...['_method=%20delete', '_method=DELETE,x', '_method=DEL%45TE%00', '_method%00=DELETE'],
    `_method%00${'x'.repeat(40)}=DELETE`,
    `_method${'%00'.repeat(300)}=DELETE`,
    ...['/login', 'x=/../users/7', '_method', '_method=', 'a[_method]=DELETE', '?_method=DELETE'],
  ],
]
const OVERRIDES = [
  ...['X-HTTP-Method-Override', 'X-HTTP-Method', 'X-Method-Override', 'x-http-method-override'],
  ...['X_HTTP_METHOD_OVERRIDE', 'X-HTTP_Method-Override'],
  ...['X-Original-URL', 'X-Rewrite-URL', 'X-Original-Method', 'X-Forwarded-Prefix', 'X-Forwarded-Uri'],
  ...['X-Forwarded-Path', 'SCRIPT_NAME', 'Method'],
]
const OVERRIDDEN = [
  ...['DELETE', 'delete', 'POST', 'post', 'GET', ' DELETE', 'DELETE ', 'DELETE, GET', 'GET, DELETE', 'DELETE;x'],
  ...['DELETE\tx', '"DELETE"', '%44ELETE', '/login', '/users/7', ''],
]
const BYTES = [...'/\\%;?#.:@&=+,!~*$-_ax0A', '%2', '%2e', '%00', '%25', '\x01', '\t', '\x80']

export interface Spelling {
  readonly method: string
  /** The whole request, one character for each byte. */
  readonly bytes: string
}

/** The `index`th spelling of a seed. */
export function drawSpelling(seed: number, index: number): Spelling {
  const random = seededRandom((seed + Math.imul(index, 0x9e3779b1)) >>> 0)
  const chance = (share: number) => random() < share
  const any = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T

  const isLogin = chance(0.5)
  const own = isLogin ? 'POST' : any(['GET', 'DELETE'])
  const method = chance(0.75) ? own : any(METHODS)
  const spell = (text: string) => [...text].map((letter) => (chance(0.06) ? respell(letter) : letter)).join('')
  const respell = (letter: string): string => {
    const hex = letter.charCodeAt(0).toString(16).padStart(2, '0')
    const way = random()
    if (way < 0.35) return `%${chance(0.5) ? hex : hex.toUpperCase()}`
    if (way < 0.5) return `%25${hex}`
    if (way < 0.7) return letter.toUpperCase()
    if (way < 0.85) return any(LIKE[letter] ?? [letter])
    return letter + any(BYTES)
  }
  // Most with little that is odd: frameworks give up on what is odd in several ways.
  const before = chance(0.3) ? any(BEFORE) : '/'
  const between = chance(0.3) ? any(BETWEEN) : '/'
  const after = chance(0.5) ? any(AFTER) + (chance(0.15) ? any(AFTER) : '') : ''
  const core = isLogin ? spell('login') : spell('users') + between + any(IDS)
  let target = before + core + after
  if (chance(0.15)) target = mutate(target)
  if (chance(0.15)) target += `${target.includes('?') ? '&' : '?'}${any(QUERIES)}`

  const fields = [`Host: ${HOST}`]
  if (chance(0.15)) fields.push(`${any(OVERRIDES)}: ${any(OVERRIDDEN)}`)
  if (chance(0.02)) fields.push(`${any(OVERRIDES)}: ${any(OVERRIDDEN)}`)
  if (chance(0.02)) fields.push('Connection: keep-alive, x-http-method-override')
  if (method !== 'GET' && method !== 'HEAD') fields.push('Content-Length: 0')
  return { method, bytes: `${method} ${target} HTTP/1.1\r\n${fields.join('\r\n')}\r\n\r\n` }

  function mutate(text: string): string {
    const at = Math.floor(random() * (text.length + 1))
    const way = random()
    if (way < 0.5) return text.slice(0, at) + any(BYTES) + text.slice(at)
    if (way < 0.75) return text.slice(0, at) + text.slice(at + 1)
    return text.slice(0, at) + any(BYTES) + text.slice(at + 1)
  }
}
