/** The middleware for `(req, res, next)`, in real frameworks over real connections. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http'
import {
  type ClientHttp2Stream,
  connect,
  createServer as createHttp2Server,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
} from 'node:http2'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import middie from '@fastify/middie'
import express from 'express'
import fastify, { type FastifyReply, type FastifyRequest } from 'fastify'
import { afterEach, describe, expect, expectTypeOf, onTestFinished, test } from 'vitest'
import { type NodeMiddleware, type RateLimit, type RateLimited, type SluiceOptions, sluice } from '../../../src/node.ts'
import { type Answer, begin, json, openRequest, send, sendInTurn } from '../../support/http-client.ts'
import { exchange, LAST, statusesOf } from '../../support/raw-http.ts'

/** What an app of the tests answers, by method and path; a router's own paths, so none with a parameter. */
type Routes = Readonly<Record<string, (req: IncomingMessage, res: ServerResponse) => unknown>>

interface Framework {
  readonly name: string
  /** Starts an app with the middleware before its routes. */
  listen(limit: NodeMiddleware<IncomingMessage>, routes: Routes): Promise<Server>
}

const split = (route: string) => route.split(' ') as ['GET' | 'POST', string]

async function listening(listener: RequestListener): Promise<Server> {
  const server = createServer(listener)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return server
}

async function listenFastify(routes: Routes, prepare: (app: ReturnType<typeof fastify>) => unknown): Promise<Server> {
  const app = fastify()
  await prepare(app)
  for (const [route, answer] of Object.entries(routes)) {
    const [method, url] = split(route)
    app.route({
      method,
      url,
      handler(request, reply) {
        reply.hijack()
        answer(Object.assign(request.raw, { body: request.body }), reply.raw)
      },
    })
  }
  app.addContentTypeParser('application/x-www-form-urlencoded', { parseAs: 'string' }, (_, body, done) =>
    done(null, Object.fromEntries(new URLSearchParams(String(body)))),
  )
  await app.listen({ host: '127.0.0.1', port: 0 })
  return app.server
}

const FRAMEWORKS: readonly Framework[] = [
  {
    name: 'Express 5',
    listen(limit, routes) {
      const app = express()
      app.use(limit)
      app.use(express.urlencoded())
      for (const [route, answer] of Object.entries(routes)) {
        const [method, path] = split(route)
        app[method === 'GET' ? 'get' : 'post'](path, (req, res) => answer(req, res))
      }
      app.use(((error, _req, res, _next) => {
        res.status(500).send(error.message)
      }) satisfies express.ErrorRequestHandler)
      return listening(app)
    },
  },
  {
    name: 'Fastify with @fastify/middie',
    listen: (limit, routes) =>
      listenFastify(routes, async (app) => {
        await app.register(middie)
        app.use(limit)
      }),
  },
  {
    name: 'Fastify with a hook',
    listen: (limit, routes) =>
      listenFastify(routes, (app) => {
        app.addHook('onRequest', (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) =>
          limit(request.raw, reply.raw, done),
        )
      }),
  },
]

const servers: Server[] = []
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.close()
    server.closeAllConnections()
  }
})

async function serving(framework: Framework, options: SluiceOptions, routes: Routes = OK): Promise<URL> {
  const server = await framework.listen(sluice({ log: () => {}, ...options }), routes)
  servers.push(server)
  return new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
}

const OK: Routes = {
  'GET /': (req, res) => res.end(JSON.stringify((req as IncomingMessage & RateLimited).rateLimit)),
  'GET /other': (_, res) => res.end('ok'),
  'POST /login': (_, res) => res.end('in'),
}

test('requests of Express have the decision, as far as types go', () => {
  expectTypeOf<express.Request['rateLimit']>().toEqualTypeOf<RateLimit | undefined>()
  expectTypeOf(sluice({ limits: '1/1s' })).toExtend<express.RequestHandler>()
})

const X = { headers: { Authorization: 'Bearer X' } }
const Y = { headers: { Authorization: 'Bearer Y' } }

const text = ({ body }: Answer) => body.toString()

describe.each(FRAMEWORKS)('sluice() in $name', (framework) => {
  test('lets through what fits, for each caller, and tells of the limits', async () => {
    const server = await serving(framework, { limits: '2/1h' })
    const first = await send(server, X)
    expect([first.status, first.headers['ratelimit-policy'], first.headers.ratelimit]).toEqual([
      200,
      '"default-1h";q=2;w=3600',
      '"default-1h";r=1;t=3600',
    ])
    expect(json(first)).toMatchObject({ outcome: 'admitted', limits: [{ name: 'default-1h', remaining: 1 }] })
    await send(server, X)
    const refused = await send(server, X)
    expect([refused.status, refused.headers['content-type'], refused.headers['cache-control']]).toEqual([
      429,
      'application/problem+json',
      'no-store',
    ])
    expect(refused.headers.ratelimit).toMatch(/^"default-1h";r=0;t=3\d{3}$/)
    expect(json(refused)).toMatchObject({ status: 429, 'violated-policies': ['default-1h'] })
    expect(await sendInTurn(server, [Y])).toEqual([200])
  })

  test('counts by the address of the connection, or by that which a trusted proxy has added', async () => {
    const claims = ['192.0.2.1', '192.0.2.2, 192.0.2.1', '192.0.2.3'].map((field) => ({
      headers: { 'X-Forwarded-For': field, 'CF-Connecting-IP': field },
    }))
    expect(await sendInTurn(await serving(framework, { limits: '1/1h', by: 'ip' }), claims)).toEqual([200, 429, 429])
    const behind = await serving(framework, { limits: '1/1h', by: 'ip', trustProxy: 1 })
    expect(await sendInTurn(behind, claims)).toEqual([200, 429, 200])
  })

  test('counts two credentials in one request as none', async () => {
    const server = await serving(framework, { limits: '1/1h' })
    const both = { headers: { Authorization: ['Bearer X', 'Bearer Y'] } }
    expect(await sendInTurn(server, [X, { headers: {} }, both])).toEqual([200, 200, 429])
  })

  test('asks functions for cost, identity and whom to skip', async () => {
    const server = await serving(framework, {
      limits: '5/1h',
      cost: (req) => Number(req.headers['x-cost'] ?? 1),
      identify: async (req) => req.headersDistinct['x-key']?.[0],
      skip: (req) => req.headers['x-free'] === 'yes',
      anonymous: 'deny:403',
    })
    const key = (more: Readonly<Record<string, string>>) => ({ headers: { 'X-Key': 'k', ...more } })
    const requests = [
      key({ 'X-Cost': '3' }),
      key({ 'X-Cost': '3' }),
      key({ 'X-Free': 'yes' }),
      { headers: {} },
      key({}),
    ]
    expect(await sendInTurn(server, requests)).toEqual([200, 429, 200, 403, 200])
    const wrong = await send(server, key({ 'X-Cost': '6' }))
    expect([wrong.status, text(wrong)]).toEqual([
      500,
      expect.stringContaining('cost: expected an integer from 1 to 5, got 6'),
    ])
  })

  test('says what a policy says of a refusal, and redirects browsers', async () => {
    const refusal = { detail: 'Too fast.', redirect: 'https://example.com/upgrade' }
    const server = await serving(framework, { policies: [{ name: 'a', limits: '1/1h', refusal }] })
    await send(server, X)
    expect(json(await send(server, X))).toMatchObject({ status: 429, detail: 'Too fast.' })
    const { status, headers } = await send(server, { headers: { ...X.headers, Accept: 'text/html' } })
    expect([status, headers.location, headers['cache-control']]).toEqual([303, refusal.redirect, 'no-store'])
  })

  test('lets onLimited answer', async () => {
    const server = await serving(framework, {
      limits: '1/1h',
      onLimited: (_, res, { outcome }) => {
        res.setHeader('Content-Type', 'text/plain')
        res.end(`you are ${outcome}`)
      },
    })
    await send(server, X)
    const response = await send(server, X)
    expect([response.status, text(response), response.headers['cache-control']]).toEqual([
      429,
      'you are limited',
      'no-store',
    ])
    expect(response.headers.ratelimit).toMatch(/^"default-1h";r=0/)
  })

  test('appends its fields to those that the app sets, however it sets them', async () => {
    const server = await serving(
      framework,
      { limits: '9/1h' },
      {
        'GET /set': (_, res) => res.setHeader('RateLimit', '"own";r=1').end(),
        'GET /head': (_, res) => res.writeHead(201, { RateLimit: '"own";r=1' }).end(),
      },
    )
    for (const path of ['/set', '/head']) {
      expect((await send(server, { path, ...X })).headers.ratelimit).toMatch(/^"own";r=1, "default-1h";r=\d;t=3600$/)
    }
  })

  test('gives a slot back when the response has ended, and when the client has gone', async () => {
    const policies = [{ name: 'slots', limits: '1', algorithm: 'concurrency', slot_ttl: '1h' }] as const
    let end = () => {}
    const server = await serving(
      framework,
      { policies },
      {
        'GET /quick': (_, res) => res.end(),
        'GET /slow': (_, res) => {
          res.write('begun')
          end = () => res.end()
        },
      },
    )
    const quick = async () => (await send(server, { path: '/quick', ...X })).status
    const slow = () => begin(server, { path: '/slow', ...X })
    const first = await slow()
    expect(await quick()).toBe(429)
    end()
    await once(first.response.resume(), 'end')
    await expect.poll(quick).toBe(200)

    const { client } = await slow()
    expect(await quick()).toBe(429)
    client.destroy()
    await expect.poll(quick).toBe(200)
  })

  test('gives the slot back of a client that has gone before it is decided', async () => {
    const gone = Promise.withResolvers<void>()
    const decided = Promise.withResolvers<ServerResponse>()
    const server = await serving(
      framework,
      {
        policies: [{ name: 'slots', limits: '1', algorithm: 'concurrency', slot_ttl: '1h' }],
        async skip(req) {
          if (req.url !== '/left') return false
          const closed = once(req.socket, 'close')
          gone.resolve()
          await closed
          return false
        },
      },
      { 'GET /quick': (_, res) => res.end(), 'GET /left': (_, res) => decided.resolve(res) },
    )
    const client = openRequest(server, { path: '/left', ...X }).on('error', () => {})
    client.end()
    await gone.promise
    client.destroy()
    const response = await decided.promise
    // Its handler is at work.
    expect((await send(server, { path: '/quick', ...X })).status).toBe(429)
    response.end()
    await expect.poll(async () => (await send(server, { path: '/quick', ...X })).status).toBe(200)
  })

  test('lets no more handlers work at once than there are slots, although clients go away', async () => {
    const policies = [{ name: 'slots', limits: '2', algorithm: 'concurrency', slot_ttl: '1h' }] as const
    const working: ServerResponse[] = []
    const gone: Promise<unknown>[] = []
    const server = await serving(
      framework,
      { policies },
      {
        'GET /work': (req, res) => {
          working.push(res)
          gone.push(once(res, 'close'))
          req.socket.destroy()
        },
        'GET /quick': (_, res) => res.end(),
      },
    )
    const quick = async () => (await send(server, { path: '/quick', ...X })).status
    for (let sent = 0; sent < 2; sent++) await expect(send(server, { path: '/work', ...X })).rejects.toThrow()
    await Promise.all(gone)
    expect((await send(server, { path: '/work', ...X })).status).toBe(429)
    for (const res of working) res.setHeader('X-Done', '1').end('nobody reads it')
    await expect.poll(quick).toBe(200)
    // One that pipes a stream ends no response.
    await expect(send(server, { path: '/work', ...X })).rejects.toThrow()
    await expect(send(server, { path: '/work', ...X })).rejects.toThrow()
    await Promise.all(gone)
    expect(await quick()).toBe(429)
    Readable.from(['nobody reads it']).pipe(working.at(-1) as ServerResponse)
    await expect.poll(quick).toBe(200)
  })

  test('makes up the difference to the cost that the response tells', async () => {
    const policies = [{ name: 'day', limits: '100/1d', algorithm: 'quota', actual_cost: 'header:x-cost' }] as const
    const server = await serving(framework, { policies }, { 'GET /': (_, res) => res.setHeader('X-Cost', 60).end() })
    const left = async () => /r=(\d+)/.exec(String((await send(server, X)).headers.ratelimit))?.[1]
    expect([await left(), await left()]).toEqual(['99', '39'])
  })

  test('charges failures when the response says so, also if its client has gone', async () => {
    const policies = [{ name: 'guesses', limits: '2/1h', counts: 'failures' }] as const
    const closed = Promise.withResolvers<void>()
    let answer: () => unknown = () => {}
    const server = await serving(
      framework,
      { policies },
      {
        'GET /right': (_, res) => res.end(),
        'GET /wrong': (_, res) => res.writeHead(403).end(),
        'GET /late': (_, res) => {
          answer = () => res.writeHead(403).end()
          res.req.socket.destroy()
        },
        'GET /later': (_, res) => {
          answer = () => Object.assign(res, { statusCode: 403 }).end('no')
          res.once('close', () => closed.resolve())
          res.req.socket.destroy()
        },
      },
    )
    const left = async (path: string, who = X) =>
      /r=(\d)/.exec(String((await send(server, { path, ...who })).headers.ratelimit))?.[1]
    expect([await left('/right'), await left('/wrong'), await left('/right')]).toEqual(['2', '1', '1'])
    await expect(send(server, { path: '/late', ...X })).rejects.toThrow()
    answer()
    expect(await sendInTurn(server, [{ path: '/right', ...X }])).toEqual([429])
    await expect(send(server, { path: '/later', ...Y })).rejects.toThrow()
    await closed.promise
    answer()
    await expect.poll(() => left('/right', Y)).toBe('1')
  })

  test('counts by a field of a form, which the app reads after it', async () => {
    const server = await serving(
      framework,
      { limits: '1/1h', by: 'form:user', anonymous: 'ip' },
      {
        'POST /': (req, res) => res.end(JSON.stringify((req as IncomingMessage & { body: unknown }).body)),
      },
    )
    const form = (body: string, more = {}) => ({
      method: 'POST',
      body,
      headers: { 'Content-Type': 'application/x-www-form-urlencoded', ...more },
    })
    const filler = 'x'.repeat(7_000)
    for (const more of [{}, { 'Transfer-Encoding': 'chunked' }]) {
      const user = `ada${Object.keys(more).length}`
      expect(json(await send(server, form(`user=${user}&n=${filler}`, more)))).toEqual({ user, n: filler })
    }
    expect(await sendInTurn(server, [form('user=ada0'), form('user=eve'), form('user=eve&n=1')])).toEqual([
      429, 200, 429,
    ])
    // Beyond 8 KiB it is not read, and its caller is counted by address.
    const long = await send(server, form(`user=ada&n=${'x'.repeat(20_000)}`))
    expect((json(long) as { n: string }).n).toHaveLength(20_000)
    expect(await sendInTurn(server, [form(`user=bob&n=${'x'.repeat(20_000)}`)])).toEqual([429])
  })

  test('leaves an empty body of unknown length to the app', async () => {
    const policies = [{ name: 'users', limits: '1/1h', by: 'form:user', anonymous: 'skip' }] as const
    const read = (req: IncomingMessage, res: ServerResponse) =>
      req.readableEnded ? res.end('read') : req.once('end', () => res.end('read')).resume()
    const server = await serving(framework, { policies }, { 'POST /': read, 'GET /last': (_, res) => res.end() })
    const type = 'Content-Type: application/x-www-form-urlencoded'
    const empty = `POST / HTTP/1.1\r\nHost: a\r\n${type}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`
    expect(statusesOf(await exchange(server, empty + LAST))).toEqual([200, 200])
  })

  test('charges whatever spelling its router takes for a route', async () => {
    const policies = [
      { name: 'all', limits: '1000/1h', by: 'ip' },
      { name: 'login', limits: '1/1h', by: 'ip', match: 'POST /login' },
    ] as const
    const server = await serving(framework, { policies })
    const spellings = ['/login', '/login/', '/LOGIN', '/Login?x', '/./login', '/x/../login', '/%6Cogin', '//login']
    const stranger = ['/x/%2e%2e/login', '/x\\..\\login', '/login#x', '/login;x', '/login%2F', '/login%00', '/login%20']
    const absolute = ['http://x/login', 'http://x/../login', 'HTTP://x//login', 'login']
    let served = 0
    for (const path of [...spellings, ...stranger, ...absolute]) {
      // Node itself sends no target with a space or a letter beyond ASCII.
      const answer = await send(server, { method: 'POST', path })
      if (answer.status === 200) served++
    }
    expect(served).toBe(1)
  })
})

describe('sluice() in Express', () => {
  async function serveApp(prepare: (app: express.Express) => unknown): Promise<URL> {
    const app = express()
    prepare(app)
    const server = await listening(app)
    servers.push(server)
    return new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  }

  test('matches whole paths below the prefix of a router', async () => {
    const limit = sluice({ policies: [{ name: 'one', limits: '1/1h', match: 'GET /api/a', by: 'ip' }], log: () => {} })
    const server = await serveApp((app) => {
      const router = express.Router()
      router.use(limit)
      router.get('/:name', (_, res) => res.send('ok'))
      app.use('/api', router)
    })
    const paths = ['/api/a', '/api/b', '/API/a', '/api/a/'].map((path) => ({ path }))
    expect(await sendInTurn(server, paths)).toEqual([200, 200, 429, 429])
  })

  test('matches the path that is routed if another middleware has changed it', async () => {
    const limit = sluice({ policies: [{ name: 'one', limits: '1/1h', match: '/new', by: 'ip' }], log: () => {} })
    const server = await serveApp((app) => {
      app.use((req, _, next) => {
        req.url = req.url.replace('/old', '/new')
        next()
      })
      app.get('/new', limit, (_, res) => res.send('ok'))
    })
    expect(await sendInTurn(server, [{ path: '/old' }, { path: '/new' }])).toEqual([200, 429])
  })

  test.each([
    ['a form', express.urlencoded({ extended: true }), 'application/x-www-form-urlencoded', 'user=ada', 'user[]=ada'],
    ['JSON', express.json(), 'application/json', '{"user":"ada"}', '{"user":["ada"]}'],
  ])('takes what a parser before it has made of %s', async (_, parser, type, ada, list) => {
    const server = await serveApp((app) => {
      app.use(parser, sluice({ limits: '1/1h', by: 'form:user', log: () => {} }))
      app.post('/', (_, res) => res.send('ok'))
    })
    const sent = (body: string) => ({ method: 'POST', body, headers: { 'Content-Type': type } })
    expect(await sendInTurn(server, [sent(ada), sent(ada), sent(list), sent('{}')])).toEqual([200, 429, 401, 401])
  })

  test('says who spoilt what: a body that was read without a trace is no identity', async () => {
    const server = await serveApp((app) => {
      app.use((req, _, next) => {
        req.resume().on('end', next)
      })
      app.use(sluice({ limits: '1/1h', by: 'form:user', anonymous: 'skip', log: () => {} }))
      app.post('/', (_, res) => res.send('ok'))
    })
    const form = { method: 'POST', body: 'user=a', headers: { 'Content-Type': 'application/x-www-form-urlencoded' } }
    expect(await sendInTurn(server, [form, form])).toEqual([200, 429])
  })

  test('stands twice on the way of a form', async () => {
    const server = await serveApp((app) => {
      app.use(sluice({ limits: '2/1h', by: 'form:user', name: 'two', log: () => {} }))
      app.use(sluice({ limits: '1/1h', by: 'form:user', name: 'one', log: () => {} }))
      app.post('/', express.urlencoded(), (req, res) => res.json(req.body))
    })
    const form = { method: 'POST', body: 'user=a', headers: { 'Content-Type': 'application/x-www-form-urlencoded' } }
    const first = await send(server, form)
    expect(json(first)).toEqual({ user: 'a' })
    expect(first.headers.ratelimit).toBe('"one-1h";r=0;t=3600, "two-1h";r=1;t=3600')
    expect(await sendInTurn(server, [form])).toEqual([429])
  })
})

describe('sluice() with HTTP/2', () => {
  /** Answers requests of HTTP/2 with their bodies. @returns a function that sends one, and reads its status and headers */
  async function serveHttp2(
    options: SluiceOptions<Http2ServerRequest, Http2ServerResponse>,
    onAsked: (stream: ClientHttp2Stream) => void = () => {},
    onHandled: () => void = () => {},
  ) {
    const limit = sluice({ log: () => {}, ...options })
    const server = createHttp2Server((req, res) =>
      limit(req, res, () => {
        onHandled()
        if (res.stream.closed) res.end()
        else req.pipe(res)
      }),
    )
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const client = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    onTestFinished(() => {
      client.destroy()
      server.close()
    })
    return async (headers: OutgoingHttpHeaders, body = '') => {
      const stream = client.request({ ':path': '/', ':method': body === '' ? 'GET' : 'POST', ...headers })
      onAsked(stream)
      if (body !== '') stream.end(body)
      const [answered] = (await once(stream, 'response')) as [IncomingHttpHeaders]
      const echo = Buffer.concat(await stream.toArray()).toString()
      return [answered[':status'], answered.ratelimit?.toString(), echo] as const
    }
  }

  test('counts by headers, and by cookies that come one by one', async () => {
    const ask = await serveHttp2({
      policies: [
        { name: 'keys', limits: '2/1h', anonymous: 'skip' },
        { name: 'sids', limits: '1/1h', by: 'cookie:sid', anonymous: 'skip' },
      ],
    })
    const X = { authorization: 'Bearer X' }
    expect(await ask(X)).toEqual([200, '"keys-1h";r=1;t=3600', ''])
    expect((await ask(X))[0]).toBe(200)
    expect((await ask(X))[0]).toBe(429)
    expect((await ask({ cookie: ['a=1', 'sid=7'] }))[0]).toBe(200)
    expect((await ask({ cookie: ['sid=7', 'a=2'] }))[0]).toBe(429)
  })

  test('gives back the slot of a stream that was closed before it was decided', async () => {
    const closed = Promise.withResolvers<void>()
    const asked = Promise.withResolvers<ClientHttp2Stream>()
    const ask = await serveHttp2(
      {
        policies: [{ name: 'slots', limits: '1', algorithm: 'concurrency', slot_ttl: '1h' }],
        async skip(req) {
          if (req.url !== '/left') return false
          const gone = once(req.stream, 'close')
          ;(await asked.promise).close()
          await gone
          return false
        },
      },
      (stream) => asked.resolve(stream),
      closed.resolve,
    )
    void ask({ ':path': '/left' }).catch(() => {})
    await closed.promise
    await expect.poll(async () => (await ask({ ':path': '/' }))[0]).toBe(200)
  })

  test('counts by a body whose length is not told, and leaves it to the app', async () => {
    const ask = await serveHttp2({ limits: '1/1h', by: 'json:/user' })
    const body = (user: string) => JSON.stringify({ user, more: 'x'.repeat(5_000) })
    const headers = { 'content-type': 'application/json' }
    expect(await ask(headers, body('ada'))).toEqual([200, '"default-1h";r=0;t=3600', body('ada')])
    expect((await ask(headers, body('ada')))[0]).toBe(429)
    expect((await ask(headers, body('bob')))[0]).toBe(200)
    expect((await ask({}))[0]).toBe(401)
  })
})
