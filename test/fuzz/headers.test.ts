import { isIPv6 } from 'node:net'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isLoop } from '../../src/gateway/app/proxy.ts'
import { loadConfig } from '../../src/http/config/load-config.ts'
import { RequestChargeBuilder } from '../../src/http/request/charge-builder.ts'
import { readCallerAddress } from '../../src/http/request/identity/address.ts'
import { readAuthorization } from '../../src/http/request/identity/authorization.ts'
import { readParameter } from '../../src/http/request/identity/reading.ts'
import { readMethods } from '../../src/http/request/received-request.ts'
import {
  canPass,
  createPassedTest,
  isConnectionStray,
  removeHopByHop,
} from '../../src/http/response/forwarded-headers.ts'
import { makeCharge } from '../support/make-charge.ts'
import { readPlace } from '../support/read-place.ts'
import { fuzz } from './fuzz.ts'
import { anyText, fieldValue, readFieldValue } from './strings.ts'

describe('readAuthorization()', () => {
  const field = readFieldValue(
    'Bearer',
    'bearer',
    'Basic',
    ' ',
    '\t',
    '  ',
    'abc',
    'ABC',
    '=',
    ',',
    '"',
    'YTpi',
    'eyJh.',
  )

  fuzz(
    'readAuthorization() answers one credential or none to any field',
    250,
    fc.property(field, (field) => {
      const reading = readAuthorization(field)
      if (reading.kind !== 'value') return
      const { value } = reading
      expect(value).toMatch(/^[!-+\--~]+$/)
      const words = field.trim().split(/\s+/)
      expect([1, 2]).toContain(words.length)
    }),
  )
})

describe('readCallerAddress()', () => {
  const group = fc.integer({ min: 0, max: 0xffff })
  const groups = fc.oneof(
    fc.array(group, { minLength: 8, maxLength: 8 }),
    fc.array(fc.oneof(fc.constant(0), group), { minLength: 8, maxLength: 8 }),
  )
  const prefix = fc.integer({ min: 16, max: 128 })
  const findAddress = (text: string, ipv6Prefix: number) => {
    return readCallerAddress({ headers: new Headers({ 'CF-Connecting-IP': text }) }, ipv6Prefix)
  }

  const hex = (groups: readonly number[]) => groups.map((group) => group.toString(16)).join(':')
  /** In full, padded, in capitals, or with the first run of zeros left out. */
  const spelling = fc.constantFrom<(groups: readonly number[]) => string>(
    hex,
    (groups) => groups.map((group) => group.toString(16).padStart(4, '0')).join(':'),
    (groups) => hex(groups).toUpperCase(),
    (groups) => hex(groups).replace(/(?:^|:)0(?::0)+(?::|$)/, '::'),
  )

  fuzz(
    'readCallerAddress() gives two addresses one name if, and only if, they share the prefix, however spelt',
    500,
    fc.property(
      groups,
      groups,
      prefix,
      fc.integer({ min: 0, max: 127 }),
      spelling,
      spelling,
      (one, any, prefix, flip, spell, respell) => {
        // An IPv4 address in the clothes of IPv6 is the IPv4 caller.
        fc.pre(one.slice(0, 5).some((group) => group !== 0))
        const bits = (groups: readonly number[]) => groups.map((group) => group.toString(2).padStart(16, '0')).join('')
        const flipped = one.map((group, index) => (index === flip >> 4 ? group ^ (0x8000 >> (flip & 15)) : group))
        for (const other of [any, flipped]) {
          if (other.slice(0, 5).every((group) => group === 0)) continue
          const isShared = bits(one).slice(0, prefix) === bits(other).slice(0, prefix)
          expect(findAddress(spell(one), prefix) === findAddress(respell(other), prefix)).toBe(isShared)
        }
      },
    ),
  )

  fuzz(
    'readCallerAddress() names an IPv4 caller as one, also if the address is mapped into IPv6',
    200,
    fc.property(fc.ipV4(), prefix, (address, prefix) => {
      expect(findAddress(address, prefix)).toBe(address)
      const [a = 0, b = 0, c = 0, d = 0] = address.split('.').map(Number)
      for (const mapped of [address, hex([a * 256 + b, c * 256 + d])]) {
        for (const prefixed of [`::ffff:${mapped}`, `::FFFF:${mapped}`, `0:0:0:0:0:ffff:${mapped}`]) {
          expect(findAddress(prefixed, prefix)).toBe(address)
        }
      }
    }),
  )

  fuzz(
    'readCallerAddress() answers a name to any text',
    300,
    fc.property(
      readFieldValue(':', '::', 'fe80', '1', 'ffff', '%eth0', '[', ']', '.', '127.0.0.1', '/', '@'),
      prefix,
      (text, prefix) => {
        const address = findAddress(text, prefix)
        expect(address.length).toBeGreaterThan(0)
        if (isIPv6(text) && !text.includes('%')) expect(address).toMatch(/^(?:[\da-f:]+\/\d+|\d+\.\d+\.\d+\.\d+)$/)
      },
    ),
  )
})

describe('RequestChargeBuilder#build()', () => {
  const MAX_COST = 50
  const config = loadConfig({
    UPSTREAM_URL: 'https://api.example.com',
    POLICIES: [
      { name: 'a', limits: '100/1m', cost: 'header:x-cost', max_cost: MAX_COST, by: 'token+header:x-team+query:key' },
    ],
  })
  const maker = new RequestChargeBuilder(config)
  const policy = config.policies[0] as (typeof config.policies)[number]

  const cost = fc.oneof(
    fc.integer({ min: -2, max: 60 }).map(String),
    readFieldValue('0', '1', '5', ' ', '+', '-', '.', 'e1', '0x', '\xb2', ','),
  )
  const value = fc.oneof(fieldValue, readFieldValue('Bearer ', 'a', '{', '}', '*', '\\', ':'))

  fuzz(
    'RequestChargeBuilder#build() answers a cost that the policy allows, or that it is none, and a key of its own making',
    300,
    fc.asyncProperty(cost, value, value, anyText, async (cost, authorization, team, key) => {
      const headers = { 'X-Cost': cost, Authorization: authorization, 'X-Team': team }
      const url = `https://gateway.example/x?key=${encodeURIComponent(key.toWellFormed())}`
      const requested = await makeCharge(maker, policy, new Request(url, { headers }))
      const sent = cost.replaceAll(/^[ \t]+|[ \t]+$/g, '')
      const isCost = /^\d{1,10}$/.test(sent) && Number(sent) >= 1 && Number(sent) <= MAX_COST
      if (requested === 'skip' || 'outcome' in requested) {
        expect([requested === 'skip' ? requested : requested.outcome, isCost]).toEqual(['invalid_cost', false])
        return
      }
      expect([requested.cost, isCost]).toEqual([Number(sent), true])
      // Whatever callers send, it leaves as a digest.
      expect(requested.key).toMatch(/^sluice:a:w:\{[\w-]{22}\}$/)
    }),
  )
})

describe('removeHopByHop()', () => {
  const OWN = 'proxy-connection'
  const KEPT = ['cookie', 'content-encoding', 'content-length', 'www-authenticate']
  const name = fc.constantFrom(
    ...['x-one', 'x-two', 'host', 'via', 'cf-connecting-ip', 'set-cookie', 'authorization'],
    ...KEPT,
    OWN,
  )
  const connection = readFieldValue(
    ...['x-one', 'X-TWO', 'close', 'keep-alive', ',', ', ', ' ', ';', '"', 'x-one x-two', 'Proxy-Connection'],
    'CF-Connecting-IP',
  )

  fuzz(
    'removeHopByHop() removes what Connection names, its own fields, and nothing else, whatever Connection says',
    300,
    fc.property(fc.array(connection, { maxLength: 3 }), fc.uniqueArray(name), fieldValue, (lists, names, value) => {
      const headers = new Headers()
      for (const list of lists) headers.append('Connection', list)
      for (const name of names) headers.append(name, value)
      const named = lists.flatMap((list) => list.split(',')).map((item) => item.trim().toLowerCase())
      const isRemoved = (name: string) => name === OWN || named.includes(name)
      const expected = names.filter((name) => !isRemoved(name))
      const isStray = names.some((name) => name !== OWN && named.includes(name))
      expect(isConnectionStray(headers)).toBe(isStray)
      removeHopByHop(headers)
      headers.delete('connection')
      expect([...headers.keys()].sort()).toEqual(expected.sort())
    }),
  )
})

describe('createPassedTest()', () => {
  const isPassed = createPassedTest([])
  const pick = (...names: readonly string[]) => fc.constantFrom(...names)
  const join = (...parts: readonly fc.Arbitrary<string>[]) =>
    fc.tuple(...parts).map((names) => names.filter(Boolean).join('-'))
  const vendor = pick('', 'x', 'wl-proxy', 'fly', 'x-acme', 'x-azure', 'fastly', 'cf-pseudo', 'x-original', 'proxy')
  const peer = pick('client', 'true-client', 'cluster-client', 'real', 'remote', 'connecting', 'source', 'user', 'peer')
  const rest = pick('', 'id', 'email', 'name', 'groups', 'x5', 'preferred-username')

  const address = join(vendor, peer, pick('ip', 'ipv4', 'ipv6', 'ip4')).filter((name) => name !== 'cf-connecting-ip')
  const joined = join(pick('x', 'x-azure', ''), pick('clientip', 'remoteip', 'sourceip', 'client-addr', 'peer-address'))
  const user = join(
    pick('', 'x'),
    pick('remote-user', 'auth-request', 'webauth-user', 'authenticated-user', 'auth-user', 'logon-user', 'sso-user'),
  )
  const userOfVendor = join(
    pick('x-goog-authenticated-user', 'cf-access-authenticated-user', 'x-ms-client-principal', 'x-amzn-oidc'),
    rest.filter(Boolean),
  )
  const certificate = join(
    pick('ssl-client', 'x-ssl-client', 'x-client-cert', 'client-cert', 'x-amzn-mtls-clientcert', 'x-client-verify'),
    pick('', 'dn', 'serial', 's-dn', 'chain'),
  )
  const way = join(
    pick(
      ...['x-forwarded', 'forwarded', 'x-original', 'x-rewrite', 'x-envoy', 'x-http', 'proxy', 'x-proxy'],
      'x-middleware',
    ),
    pick('url', 'uri', 'path', 'host', 'destinationurl', 'subrequest', 'rewrite', 'for', 'proto'),
  )
  const listed = pick(
    ...['wl-proxy-client-ip', 'proxy-client-ip', 'x-true-client-ip', 'true-client-ip', 'fly-client-ip'],
    'cf-pseudo-ipv4',
    ...['remote-user', 'x-remote-user', 'x-auth-request-user', 'x-auth-request-email', 'x-webauth-user', 'x-real-ip'],
    ...['ssl-client-cert', 'ssl-client-s-dn', 'x-http-destinationurl', 'x-middleware-subrequest', 'x-scheme', 'x-host'],
    ...['x-originating-ip', 'x-proxyuser-ip', 'x-remote-addr', 'x-real-port', 'cf-worker', 'front-end-https', 'proxy'],
    ...['x-http-host-override', 'script-name', 'x-script-name', 'x-url-scheme', 'x-azure-clientip'],
    'cf-connecting-ipv6',
    ...['client-ip', 'ip', 'x-ip', 'x-userinfo', 'x-consumer-username', 'x-request-uri', 'x-sendfile-type'],
  )
  const claim = fc.oneof(address, joined, user, userOfVendor, certificate, way, listed)

  fuzz(
    'createPassedTest() drops what claims an address, a user, a certificate, a way or a URL, unless it is let through',
    1_000,
    fc.property(claim, (name) => {
      expect([name, isPassed(name)]).toEqual([name, false])
      expect(createPassedTest(['x-a', name])(name)).toBe(canPass(name))
    }),
  )

  test('createPassedTest() passes what clients and Cloudflare send for the API', () => {
    const names = [
      ...['accept', 'accept-language', 'authorization', 'content-type', 'cookie', 'host', 'origin', 'referer', 'via'],
      ...['user-agent', 'if-none-match', 'range', 'destination', 'depth', 'dpop', 'expect', 'prefer', 'max-forwards'],
      ...['idempotency-key', 'traceparent', 'x-request-id', 'x-correlation-id', 'x-amzn-trace-id', 'x-csrf-token'],
      ...[
        'x-api-key',
        'x-auth-token',
        'x-auth-key',
        'x-auth-email',
        'x-user-token',
        'x-account-name',
        'x-requested-with',
      ],
      ...['x-client-id', 'x-client-version', 'x-client-secret', 'x-client-name', 'x-zip', 'x-tip', 'x-membership'],
      ...['x-shipping-address', 'x-ship-address', 'x-email-token', 'x-realm', 'x-remotely'],
      ...['x-http-method', 'x-http-method-override', 'x-method-override', 'x-middleware-prefetch', 'x-nextjs-data'],
      ...['cf-connecting-ip', 'cf-ray', 'cf-ipcountry', 'cf-visitor', 'cf-access-jwt-assertion', 'cf-access-client-id'],
      ...['cf-access-client-secret', 'x-ghost', 'sec-websocket-key', 'sec-fetch-site'],
      ...['upgrade-insecure-requests', 'x-hasura-admin-secret', 'x-authorization', 'x-authentication', 'authenticate'],
    ]
    expect(names.filter((name) => !isPassed(name))).toEqual([])
  })

  fuzz(
    'createPassedTest() lets through by name neither what is about one connection nor what could be another name',
    200,
    fc.property(
      fc.oneof(fc.string(), pick('te', 'upgrade', 'sluice-secret', 'x_remote_user', 'x.a', 'X-A')),
      (name) => {
        const isName = /^[a-z\d-]+$/.test(name) && !/^(?:te|trailer|upgrade|connection|sluice-secret)$/.test(name)
        expect(createPassedTest([name])(name)).toBe(isName && canPass(name))
      },
    ),
  )
})

describe('isLoop()', () => {
  const OWN = 'sluice-1a2b3c4d'
  const other = fc.constantFrom(
    '1.1 sluice-00000000',
    '1.1 sluice',
    `1.1 ${OWN}x`,
    `1.1 x${OWN}`,
    `1.1 ${OWN}.example`,
    '2 cdn (a, b)',
    'HTTP/2 y',
    '',
  )
  const own = fc.constantFrom(
    `1.1 ${OWN}`,
    `2\t${OWN.toUpperCase()} (here)`,
    `HTTP/1.1  ${OWN}`,
    `1.1 fred (1.1 ${OWN})`,
  )
  const space = fc.constantFrom(',', ', ', ' ,\t')

  fuzz(
    'isLoop() finds this deployment in a list if, and only if, it is there, in whatever case and place',
    150,
    fc.property(fc.array(other), fc.array(other), own, space, (before, after, own, space) => {
      expect(isLoop([...before, own, ...after].join(space), OWN)).toBe(true)
      expect(isLoop([...before, ...after].join(space), OWN)).toBe(false)
    }),
  )
})

describe('readMethods()', () => {
  const field = fc.constantFrom('X-HTTP-Method-Override', 'X-HTTP-Method', 'X-Method-Override', 'X-Other')
  const value = readFieldValue('DELETE', 'delete', 'POST', ',', ' ', '"', 'é')
  const query = fc.oneof(
    anyText,
    fc.constantFrom(
      ...['_method=PUT', '%5Fmethod=put', 'a=1&_method=', '_method=%', '_METHOD=x', '.method=put', '+_method=PUT'],
    ),
  )
  const KNOWN = ['GET', 'PUT', 'DELETE']

  test('readMethods() finds a method before a letter of which upper case makes two', () => {
    const headers = { 'X-HTTP-Method-Override': 'deleteß' }
    const { meant, isCertain } = readMethods(new Request('https://gateway.example/', { headers }), KNOWN)
    expect([meant, isCertain]).toEqual([['GET', 'DELETE'], false])
  })

  fuzz(
    "readMethods() answers the request's own method first, and after it those known that it names",
    200,
    fc.property(fc.constantFrom('GET', 'POST'), field, value, query, (method, field, value, query) => {
      const url = `https://gateway.example/?${query.toWellFormed().replaceAll('#', '')}`
      const { meant, isCertain } = readMethods(new Request(url, { method, headers: { [field]: value } }), KNOWN)
      expect(meant[0]).toBe(method)
      expect(new Set(meant).size).toBe(meant.length)
      expect([method, ...KNOWN]).toEqual(expect.arrayContaining([...meant]))
      const values = [field === 'X-Other' ? '' : value, ...new URL(url).searchParams.getAll('_method')]
      const first = values.map((text) => /^\s*([A-Z]*)/i.exec(text)?.[1]?.toUpperCase() ?? '').filter(Boolean)
      expect(meant).toEqual(expect.arrayContaining(first.filter((name) => KNOWN.includes(name))))
      if (first.some((name) => name !== method)) expect(isCertain).toBe(false)
    }),
  )

  const name = fc.constantFrom(
    ...['_method', '.method', '+method', '%5Fmethod', '_%6Dethod', '_METHOD', '[method', '_metho'],
  )
  /** What follows the name, of any length: PHP ends a name at a NUL, and makes a list of what has a bracket. */
  const tail = fc
    .array(
      fc.constantFrom('', '%00', '%00', '[]', '[', 'x', 'é', '%20', '.', '%3D', 'x'.repeat(40), '%C3%A9'.repeat(20)),
      {
        maxLength: 4,
      },
    )
    .map((parts) => parts.join(''))
  const parameter = fc.tuple(
    fc.constantFrom('', '+', '%20'),
    name,
    tail,
    fc.constantFrom('DELETE', 'put', 'GET', '%44ELETE'),
  )

  fuzz(
    'readMethods() finds the method that PHP reads in a query, whatever surrounds its name, or takes it for any',
    400,
    fc.property(fc.array(parameter, { minLength: 1, maxLength: 3 }), (parameters) => {
      const query = parameters.map(([space, name, tail, value]) => `${space}${name}${tail}=${value}`).join('&')
      const { meant, isCertain } = readMethods(
        new Request(`https://gateway.example/?${query}`, { method: 'POST' }),
        KNOWN,
      )
      const named = methodsInPhp(query).filter((method) => KNOWN.includes(method))
      expect(meant).toEqual(expect.arrayContaining(named))
      if (named.length > 0) expect(isCertain).toBe(false)
    }),
  )

  /** As `php_register_variable_ex()` reads names; of several with one name, the last counts. */
  function methodsInPhp(query: string): readonly string[] {
    return query.split('&').flatMap((parameter) => {
      const [name = '', value = ''] = parameter.split('=').map((part) => unescape(part.replaceAll('+', ' ')))
      const [own = ''] = name.replace(/^ +/, '').split('\0')
      const [whole = ''] = own.includes(']') ? own.split('[') : [own.replace('[', '_')]
      return whole.replace(/[ .]/g, '_') === '_method' ? [value.toUpperCase()] : []
    })
  }
})

describe('readPart()', () => {
  const type = fc.constantFrom(
    'application/x-www-form-urlencoded',
    'Application/X-WWW-Form-URLEncoded; charset=UTF-8',
    'text/plain',
  )
  const body = fc.oneof(
    fc.uint8Array({ maxLength: 200 }),
    fc
      .array(fc.constantFrom('caller=', 'a', '&', '%', '%C3', '=', '+', 'x'.repeat(4_000)), { maxLength: 6 })
      .map((parts) => new TextEncoder().encode(parts.join(''))),
  )

  fuzz(
    'readPart() answers what the form holds, or nothing, and leaves the body as it was',
    150,
    fc.asyncProperty(type, body, async (type, body) => {
      const headers = { 'Content-Type': type }
      const request = new Request('https://gateway.example/', { method: 'POST', headers, body })
      const field = await readPlace('form', request, 'caller')
      const isForm = /^application\/x-www-form-urlencoded/i.test(type)
      const text = new TextDecoder('utf-8', { fatal: false, ignoreBOM: true }).decode(body)
      const found = body.length > 8 * 1024 ? { kind: 'ambiguous' } : readParameter(text, 'caller')
      // Some read a form from a body of any type.
      expect(field).toEqual(isForm || found.kind === 'none' ? found : { kind: 'ambiguous' })
      expect(new Uint8Array(await request.arrayBuffer())).toEqual(body)
    }),
  )
})
