/** WebSockets through the gateway: with a slot, which it then holds, they are the same as without. */
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { describe, expect, inject, test } from 'vitest'
import { type ClientOptions, type RawData, WebSocket, WebSocketServer } from 'ws'
import { PLANTED } from '../setup/secret-watch.ts'
import { startDirectGateway } from '../support/direct-gateway.ts'
import { send } from '../support/http-client.ts'
import { ADMIN_TOKEN, operate } from '../support/operator.ts'
import { share } from '../support/share.ts'
import { signToken } from '../support/tokens.ts'

const MIB = 2 ** 20

const REQUESTED_MIB = 300
/** What may be kept for a side that reads nothing, with room for what it is taken to have received meanwhile. */
const MOST_KEPT_MIB = 50
/** What may be kept in an isolate, and what each side is taken to receive in a second. */
const TOTAL_MIB = 64
const RECEIVED_MIB_PER_SECOND = 0.25

const upstream = share(
  async () => {
    const server = new WebSocketServer({ host: '127.0.0.1', port: 0, perMessageDeflate: true })
    await once(server, 'listening')
    return server
  },
  (server) => {
    for (const socket of server.clients) socket.terminate()
    server.close()
  },
)
const startOver = (bindings: object) =>
  startDirectGateway({
    bundle: inject('bundle'),
    bindings: { UPSTREAM_URL: `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`, ...bindings },
  })
const gateway = share(() =>
  startOver({
    // None is to be free because its deadline has come.
    POLICIES: [
      { name: 'slot', algorithm: 'concurrency', limits: '50', slot_ttl: '1h', match: '/slot' },
      { name: 'counted', limits: '9/1h', match: '/counted' },
      { name: 'one', algorithm: 'concurrency', limits: '1', slot_ttl: '1h', match: '/one' },
    ],
  }),
)

interface Joined {
  readonly client: WebSocket
  readonly server: WebSocket
}

const JWT = { secret: `${PLANTED}-of-tokens-0123456789abcdef` }
const bearer = (token: string) => ({ Authorization: `Bearer ${token}` })

async function join(
  path: string,
  { protocols = [], ...options }: ClientOptions & { readonly protocols?: string[] } = {},
  through = gateway,
): Promise<Joined> {
  const connected = once(upstream, 'connection')
  const client = new WebSocket(`ws://${through.url.host}${path}`, protocols, options)
  // A refusal rejects the second.
  const [[server]] = (await Promise.all([connected, once(client, 'open')])) as [[WebSocket], unknown]
  return { client, server }
}

interface Message {
  readonly data: Buffer
  readonly isBinary: boolean
}

async function messages(socket: WebSocket, count: number): Promise<readonly Message[]> {
  const seen: Message[] = []
  const done = Promise.withResolvers<void>()
  socket.on('message', (data: RawData, isBinary) => {
    seen.push({ data: data as Buffer, isBinary })
    if (seen.length === count) done.resolve()
  })
  await done.promise
  return seen
}

const text = (value: string): Message => ({ data: Buffer.from(value), isBinary: false })
const binary = (data: Buffer): Message => ({ data, isBinary: true })
const bytes = (length: number) => Buffer.alloc(length, 'many bytes, not all alike')

const MESSAGES: readonly (readonly [string, readonly Message[]])[] = [
  ['text', [text('hello')]],
  ['text beyond ASCII', [text('grüße 🎉 \u0000')]],
  ['an empty text', [text('')]],
  ['binary', [binary(Buffer.from([0, 255, 1, 128]))]],
  ['what looks like text, as binary', [binary(Buffer.from('hello'))]],
  ['an empty binary', [binary(Buffer.alloc(0))]],
  ['each kind in turns', Array.from({ length: 50 }, (_, i) => (i % 2 ? text(`${i}`) : binary(Buffer.from([i]))))],
  ['lengths at the borders of framing', [125, 126, 65_535, 65_536].map((length) => binary(bytes(length)))],
  ['1 MiB', [binary(bytes(MIB)), text('x'.repeat(MIB))]],
]
const LONGEST = [binary(bytes(32 * MIB))]

const PATHS = [
  ['without a slot', '/'],
  ['with a slot', '/slot'],
] as const

const SIDES = [
  ['client', 'server'],
  ['server', 'client'],
] as const

for (const [name, path] of PATHS) {
  for (const [from, to] of SIDES) {
    const expectToPass = async (sent: readonly Message[]) => {
      // Compressing megabytes takes longer than all else here.
      const joined = await join(path, { perMessageDeflate: sent.every(({ data }) => data.length < MIB) })
      const received = messages(joined[to], sent.length)
      for (const { data, isBinary } of sent) joined[from].send(data, { binary: isBinary })
      const seen = await received
      expect(seen.map(({ isBinary }) => isBinary)).toEqual(sent.map(({ isBinary }) => isBinary))
      expect(seen.every(({ data }, index) => data.equals(sent[index]?.data as Buffer))).toBe(true)
      joined.client.terminate()
    }
    test.each(MESSAGES)(`%s passes from the ${from} ${name}`, (_, sent) => expectToPass(sent))
    test(`32 MiB, the most that workerd takes, passes from the ${from} ${name}`, { tags: ['slow'] }, () =>
      expectToPass(LONGEST),
    )

    test(`a message in fragments passes from the ${from} ${name}`, async () => {
      const joined = await join(path)
      const received = messages(joined[to], 1)
      joined[from].send('one ', { fin: false })
      joined[from].send('and ', { fin: false })
      joined[from].send('two', { fin: true })
      expect((await received).map(({ data }) => String(data))).toEqual(['one and two'])
      joined.client.terminate()
    })

    test(`a ping is answered to the ${from} ${name}`, async () => {
      const joined = await join(path)
      const answered = once(joined[from], 'pong')
      joined[from].ping('are you there')
      expect(String((await answered)[0])).toBe('are you there')
      joined.client.terminate()
    })

    test.each([
      [1000, ''],
      [1001, 'going away'],
      [1005, ''],
      [1011, 'grüße'],
      [1012, 'x'.repeat(123)],
      [3000, ''],
      [4999, 'last'],
    ])(`the code %d passes from the ${from} ${name}`, async (code, reason) => {
      const joined = await join(path)
      const ended = SIDES.map(async ([side]) => {
        const [code, reason] = await once(joined[side], 'close')
        return [code, String(reason)]
      })
      if (code === 1005) joined[from].close()
      else joined[from].close(code, reason)
      expect(await Promise.all(ended)).toEqual([
        [code, reason],
        [code, reason],
      ])
    })
  }

  test(`the upstream chooses among subprotocols ${name}`, async () => {
    const { client, server } = await join(path, { protocols: ['v1.chat', 'v2.chat'] })
    expect([client.protocol, server.protocol]).toEqual(['v1.chat', 'v1.chat'])
    client.terminate()
  })

  test.each([true, false])(`compression is what the two agree on ${name} (%s)`, async (perMessageDeflate) => {
    const { client, server } = await join(path, { perMessageDeflate })
    const agreed = perMessageDeflate ? expect.stringContaining('permessage-deflate') : ''
    expect([client.extensions, server.extensions]).toEqual([agreed, agreed])
    client.terminate()
  })
}

test.each([
  ['/counted', '"counted-1h";r=8;t=3600'],
  ['/slot', '"slot";r=49'],
])(
  'the handshake passes with its path, its fields and whose it is, and its answer reports the limits: %s',
  async (path, limits) => {
    const headers = { ...bearer('x'), 'CF-Connecting-IP': '203.0.113.7' }
    const connected = once(upstream, 'connection')
    const client = new WebSocket(`ws://${gateway.url.host}${path}?room=a%2Fb`, ['v2.chat'], { headers })
    const [[socket, request], [upgrade]] = await Promise.all([connected, once(client, 'upgrade')])
    expect(request.url).toBe(`${path}?room=a%2Fb`)
    expect(request.headers).toMatchObject({
      authorization: 'Bearer x',
      upgrade: 'websocket',
      via: expect.stringMatching(/^1\.1 sluice-[\w-]{8}$/),
      'x-forwarded-for': '203.0.113.7',
      'sec-websocket-protocol': 'v2.chat',
    })
    expect(upgrade.headers.ratelimit).toBe(limits)
    socket.terminate()
  },
)

test('a client that breaks off is said to have gone, and its slot is free', async () => {
  const { client, server } = await join('/one')
  expect((await send(gateway.url, { path: '/one' })).status).toBe(429)
  const ended = once(server, 'close')
  client.terminate()
  expect((await ended)[0]).toBe(1001)
  await free('/one')
})

test('an upstream that breaks off is said to have failed, and the slot is free', async () => {
  const { client, server } = await join('/one')
  const ended = once(client, 'close')
  server.terminate()
  expect((await ended)[0]).toBe(1014)
  await free('/one')
})

test('a client that calls for much and reads nothing is closed, and keeps its slot while it is there', {
  tags: ['slow'],
}, async () => {
  const { client, server } = await join('/one', { perMessageDeflate: false })
  server.on('message', () => server.send(bytes(MIB)))
  const ended = once(server, 'close')
  client.pause()
  for (let requested = 0; requested < REQUESTED_MIB; requested++) client.send('more')
  expect((await ended)[0]).toBe(1013)
  expect((await send(gateway.url, { path: '/one' })).status).toBe(429)

  const closed = once(client, 'close')
  let receivedMiB = 0
  client.on('message', (data: Buffer) => {
    receivedMiB += data.length / MIB
  })
  client.resume()
  expect((await closed)[0]).toBe(1013)
  expect(receivedMiB).toBeGreaterThanOrEqual(16)
  expect(receivedMiB).toBeLessThan(MOST_KEPT_MIB)
  await free('/one')
})

test('a client without a slot that calls for much and reads nothing is waited for, and loses nothing', {
  tags: ['slow'],
}, async () => {
  const { client, server } = await join('/', { perMessageDeflate: false })
  const requested = messages(server, REQUESTED_MIB)
  server.on('message', () => server.send(bytes(MIB)))
  client.pause()
  for (let sent = 0; sent < REQUESTED_MIB; sent++) client.send('more')
  await requested
  // More than the gateway takes waits at the upstream.
  expect(server.bufferedAmount).toBeGreaterThan(MIB)
  const answered = messages(client, REQUESTED_MIB)
  client.resume()
  expect((await answered).every(({ data }) => data.length === MIB)).toBe(true)
  expect([client.readyState, server.readyState]).toEqual([WebSocket.OPEN, WebSocket.OPEN])
  client.terminate()
})

test('a client that sends much to an upstream that reads nothing is closed', { tags: ['slow'] }, async () => {
  const { client, server } = await join('/one', { perMessageDeflate: false })
  server.pause()
  const closed = once(client, 'close')
  for (let sentMiB = 0; sentMiB < MOST_KEPT_MIB; sentMiB++) client.send(bytes(MIB))
  expect((await closed)[0]).toBe(1013)
  await free('/one')
  server.terminate()
})

test('many clients that read nothing hold no more than an isolate has, and those that read go on', {
  tags: ['slow'],
}, async () => {
  const startedMs = performance.now()
  const reader = await join('/slot')
  const joined: Joined[] = []
  for (let at = 0; at < 16; at++) joined.push(await join('/slot', { perMessageDeflate: false }))
  const ended = joined.map(async ({ server }) => (await once(server, 'close'))[0])
  for (const { client, server } of joined) {
    server.on('message', () => server.send(bytes(MIB)))
    client.pause()
    for (let requested = 0; requested < 20; requested++) client.send('more')
  }
  expect(await Promise.all(ended)).toEqual(Array(16).fill(1013))
  const seconds = (performance.now() - startedMs) / 1_000

  const received = messages(reader.client, 100)
  for (let at = 0; at < 100; at++) reader.server.send('x'.repeat(100))
  expect(await received).toHaveLength(100)

  let receivedMiB = 0
  const read = joined.map(async ({ client }, at) => {
    client.on('message', (data: Buffer) => {
      receivedMiB += data.length / MIB
    })
    const closed = once(client, 'close')
    client.resume()
    // Some break off: what waits for them is gone as well.
    if (at % 4 === 0) client.terminate()
    await closed
  })
  await Promise.all(read)
  expect(receivedMiB).toBeLessThan(TOTAL_MIB + joined.length * RECEIVED_MIB_PER_SECOND * seconds)
  reader.client.terminate()

  const again = await join('/slot', { perMessageDeflate: false })
  const whole = messages(again.client, 1)
  again.server.send(bytes(32 * MIB))
  expect((await whole)[0]?.data.length).toBe(32 * MIB)
  again.client.terminate()
})

/** Renewed three times a second. */
const renewed = { algorithm: 'concurrency', limits: '50', slot_ttl: '1s' }
const UNTIL_REFUSED = [
  { name: 'own-slot', match: '/refused', by: 'token', ...renewed },
  { name: 'patience', match: '/refused', by: 'header:x-key', limits: '1/1h', penalty: '1h', anonymous: 'skip' },
  { name: 'users', match: '/users', by: 'claim:sub', anonymous: 'deny', ...renewed },
]

describe('a WebSocket with a slot whose caller', () => {
  const rules = { ADMIN_TOKEN, RULES: 'on', RULES_REFRESH_MS: 100 }
  const own = share(() => startOver({ POLICIES: UNTIL_REFUSED, JWT_SECRET: JWT.secret, ...rules }))

  /** @returns the codes by which both sides end, later */
  async function open(path: string, headers: Record<string, string>) {
    const { client, server } = await join(path, { headers }, own)
    const codes = Promise.all([client, server].map(async (side) => (await once(side, 'close'))[0]))
    return { client, server, codes }
  }

  const block = (token: string) =>
    operate(own.url, '/block', { body: { target: { token }, comment: 'test', actor: 'test' } })

  test('is blocked ends with 1008, and that of another does not', async () => {
    const [blocked, other] = [await open('/refused', bearer('a')), await open('/refused', bearer('b'))]
    const answer = await block('Bearer a')
    expect([answer.status, String(answer.body)]).toEqual([200, expect.anything()])
    expect(await blocked.codes).toEqual([1008, 1008])
    const received = messages(other.client, 1)
    other.server.send('still there')
    expect(await received).toHaveLength(1)
    other.client.terminate()
  })

  test('runs into a penalty ends with 1008', async () => {
    const headers = { ...bearer('c'), 'X-Key': 'c' }
    const { codes } = await open('/refused', headers)
    expect((await send(own.url, { path: '/refused', headers })).status).toBe(429)
    expect(await codes).toEqual([1008, 1008])
  })

  test('has used up its limits goes on', async () => {
    const { client, server } = await open('/refused', { ...bearer('d'), 'X-Key': 'd' })
    const { codes } = await open('/refused', { ...bearer('e') })
    expect((await block('Bearer e')).status).toBe(200)
    // By then, the other has been asked about as well.
    expect(await codes).toEqual([1008, 1008])
    const received = messages(client, 1)
    server.send('still there')
    expect(await received).toHaveLength(1)
    client.terminate()
  })

  test('has a token that expires ends with 1008', { tags: ['slow'] }, async () => {
    // Six seconds from now: a token counts for 30 seconds longer, for clocks that differ.
    const exp = Math.floor(Date.now() / 1_000) - 24
    const token = await signToken({ sub: 'alice', exp }, JWT)
    expect(await (await open('/users', bearer(token))).codes).toEqual([1008, 1008])
  })
})

/** Asks until a slot is given; it goes back at once, as the upstream answers no plain request for long. */
async function free(path: string): Promise<void> {
  for (let tries = 0; tries < 500; tries++) {
    if ((await send(gateway.url, { path })).status !== 429) return
  }
  throw new Error('the slot was not given back')
}
