/** What only servers of Node have: responses that are written piece by piece, and clients that go away meanwhile. */
import { once } from 'node:events'
import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { Readable } from 'node:stream'
import fastify from 'fastify'
import { describe, expect, onTestFinished, test } from 'vitest'
import { type SluiceOptions, sluice } from '../../../src/node.ts'
import { openRequest, responseTo, send, sendInTurn } from '../../support/http-client.ts'
import { exchange, LAST, readStatuses } from '../../support/raw-http.ts'
import { X, Y } from '../matrix/adapter.ts'
import { FRAMEWORKS, listen, type NodeRoutes } from '../matrix/node-adapters.ts'

const SLOT = { name: 'slots', limits: '1', algorithm: 'concurrency', slot_ttl: '1h' } as const

/** Clients that go when the handler of their request has begun. */
class LeavingClients {
  /** To be called by the handler. */
  onBegun: (res: ServerResponse) => void = () => {}

  /** @returns the response that nobody waits for */
  async sendAndLeave(server: URL, sent: object): Promise<ServerResponse> {
    const client = openRequest(server, sent).on('error', () => {})
    const begun = new Promise<ServerResponse>((resolve) => {
      this.onBegun = resolve
    })
    client.end()
    const response = await begun
    const closed = once(response, 'close')
    client.destroy()
    await closed
    return response
  }
}

describe.each(FRAMEWORKS)('sluice() in $name', ({ listen }) => {
  const serve = (options: SluiceOptions, routes: NodeRoutes) => listen([sluice({ log: () => {}, ...options })], routes)

  test('sets the status and the headers of a refusal before onLimited answers', async () => {
    const onLimited: SluiceOptions['onLimited'] = (_, res, { outcome }) =>
      void res.setHeader('Content-Type', 'text/plain').end(`you are ${outcome}`)
    for (const expected of [429, 402] as const) {
      const policies = [{ name: 'api', limits: '1/1h', refusal: { status: expected } }]
      const server = await serve({ policies, onLimited }, { 'GET /': (_, res) => res.end() })
      await send(server, X)
      const { status, headers, body } = await send(server, X)
      expect([status, body.toString(), headers['cache-control']]).toEqual([expected, 'you are limited', 'no-store'])
      expect(headers.ratelimit).toMatch(/^"api-1h";r=0/)
    }
  })

  test('adds its headers to those that the app sets, however it sets them', async () => {
    const routes: NodeRoutes = {
      'GET /set': (_, res) => res.setHeader('RateLimit', '"own";r=1').end(),
      'GET /head': (_, res) => res.writeHead(201, { RateLimit: '"own";r=1' }).end(),
    }
    // With a clock that is exact, no reset is rounded up past the hour.
    const server = await serve({ limits: '9/1h', now: Date.now }, routes)
    for (const path of ['/set', '/head']) {
      expect((await send(server, { path, ...X })).headers.ratelimit).toMatch(/^"own";r=1, "default-1h";r=\d;t=3600$/)
    }
  })

  test('sees the head in each form that Node takes', async () => {
    const object = { 'X-One': 'one', 'Set-Cookie': ['a=1', 'b=2'], '': 'left out' }
    const inTurn = ['X-One', 'one', 'Set-Cookie', 'a=1', 'Set-Cookie', 'b=2']
    const pairs = [
      ['X-One', 'one'],
      ['Set-Cookie', 'a=1'],
      ['set-cookie', 'b=2'],
    ]
    const heads = [[object], ['Made', object], [undefined, object], [inTurn], ['Made', inTurn], [pairs]] as const
    const routes: NodeRoutes = {
      '*': (req, res) => {
        res.setHeader('X-One', 'before')
        const write = res.writeHead as (status: number, ...head: readonly unknown[]) => ServerResponse
        write.call(res, 201, ...(heads[Number(req.url?.slice(2))] ?? [])).end()
      },
    }
    const server = await serve({ limits: '9/1h' }, routes)
    for (const [index, [message]] of heads.entries()) {
      const client = openRequest(server, { path: `/?${index}`, ...X }).end()
      const { statusCode, statusMessage, headers } = await responseTo(client)
      expect([statusCode, statusMessage]).toEqual([201, message === 'Made' ? 'Made' : 'Created'])
      expect(headers).toMatchObject({ 'x-one': 'one', 'set-cookie': ['a=1', 'b=2'] })
      expect(headers.ratelimit).toMatch(/^"default-1h";r=\d/)
    }
  })

  test('gives the slot back of a client that has gone before it is decided', async () => {
    const gone = Promise.withResolvers<void>()
    const decided = Promise.withResolvers<ServerResponse>()
    const server = await serve(
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

  test('does not handle a delayed request whose client has gone, and returns its slot', async () => {
    const begun = Promise.withResolvers<void>()
    let handled = 0
    const server = await serve(
      {
        policies: [SLOT],
        delay(_, req) {
          if (req.url !== '/slow') return 0
          begun.resolve()
          return 3_600_000
        },
      },
      { 'GET /quick': (_, res) => res.end(), 'GET /slow': (_, res) => res.end(`${handled++}`) },
    )
    const quick = async () => (await send(server, { path: '/quick', ...X })).status
    const client = openRequest(server, { path: '/slow', ...X }).on('error', () => {})
    client.end()
    await begun.promise
    expect(await quick()).toBe(429)
    client.destroy()
    await expect.poll(quick).toBe(200)
    expect(handled).toBe(0)
  })

  test('lets no more handlers work at once than there are slots, although clients go away', async () => {
    const policies = [{ name: 'slots', limits: '2', algorithm: 'concurrency', slot_ttl: '1h' }] as const
    const working: ServerResponse[] = []
    const clients = new LeavingClients()
    const server = await serve(
      { policies },
      {
        'GET /work': (_, res) => {
          working.push(res)
          clients.onBegun(res)
        },
        'GET /quick': (_, res) => res.end(),
      },
    )
    const quick = async () => (await send(server, { path: '/quick', ...X })).status
    const work = () => clients.sendAndLeave(server, { path: '/work', ...X })
    for (let sent = 0; sent < 2; sent++) await work()
    expect((await send(server, { path: '/work', ...X })).status).toBe(429)
    for (const res of working) res.setHeader('X-Done', '1').end('nobody reads it')
    await expect.poll(quick).toBe(200)
    // One that pipes a stream ends no response.
    for (let sent = 0; sent < 2; sent++) await work()
    expect(await quick()).toBe(429)
    Readable.from(['nobody reads it']).pipe(working.at(-1) as ServerResponse)
    await expect.poll(quick).toBe(200)
  })

  test('charges failures when the response says so, also if its client has gone', async () => {
    const policies = [{ name: 'guesses', limits: '2/1h', counts: 'failures' }] as const
    let answer: () => unknown = () => {}
    const clients = new LeavingClients()
    const server = await serve(
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
          clients.onBegun(res)
        },
      },
    )
    const readLeft = async (path: string, who = X) =>
      /r=(\d)/.exec(String((await send(server, { path, ...who })).headers.ratelimit))?.[1]
    expect([await readLeft('/right'), await readLeft('/wrong'), await readLeft('/right')]).toEqual(['2', '1', '1'])
    await expect(send(server, { path: '/late', ...X })).rejects.toThrow()
    answer()
    expect(await sendInTurn(server, [{ path: '/right', ...X }])).toEqual([429])
    await clients.sendAndLeave(server, { path: '/later', ...Y })
    answer()
    await expect.poll(() => readLeft('/right', Y)).toBe('1')
  })

  test.each(['end', 'pipe'])(
    'charges what a handler writes until its %s, though its client has gone after the head',
    async (way) => {
      const policies = [
        { name: 'tokens', limits: '100/1h', algorithm: 'quota', actual_cost: 'json:/usage/out', untold: 1 },
        SLOT,
      ] as const
      const clients = new LeavingClients()
      const server = await serve(
        { policies },
        {
          'GET /stream'(_, res) {
            res.setHeader('Content-Type', 'text/event-stream').write('data: {"usage":{"out":20}}\n\n')
            if (way === 'pipe') Readable.from([], { read() {} }).pipe(res)
            clients.onBegun(res)
          },
          'GET /': (_, res) => res.end(),
        },
      )
      const res = await clients.sendAndLeave(server, { path: '/stream', ...X })
      if (way === 'end') res.end('data: {"usage":{"out":50}}\n\n')
      // Not before the slot is free, which is when the cost is known.
      const ask = async () => /r=(\d+)/.exec(String((await send(server, X)).headers.ratelimit))?.[1]
      await expect.poll(async () => (await send(server, { path: '/none', ...X })).status).not.toBe(429)
      expect(Number(await ask())).toBeLessThanOrEqual(way === 'end' ? 50 : 80)
      expect(Number(await ask())).toBeGreaterThan(way === 'end' ? 40 : 70)
    },
  )

  test('leaves an empty body of unknown length to the app', async () => {
    const policies = [{ name: 'users', limits: '1/1h', by: 'form:user', anonymous: 'skip' }] as const
    const read = (req: IncomingMessage, res: ServerResponse) =>
      req.readableEnded ? res.end('read') : req.once('end', () => res.end('read')).resume()
    const server = await serve({ policies }, { 'POST /': read, 'GET /last': (_, res) => res.end() })
    const type = 'Content-Type: application/x-www-form-urlencoded'
    const empty = `POST / HTTP/1.1\r\nHost: a\r\n${type}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`
    expect(readStatuses(await exchange(server, empty + LAST))).toEqual([200, 200])
  })

  test.each<[string, (req: IncomingMessage, res: ServerResponse) => unknown]>([
    ['response', (_, res) => res.destroy()],
    ['request', (req) => req.destroy()],
    ['connection', (req) => req.socket.destroy()],
  ])('gives the slot back of a handler that destroys its %s before the head', async (_, destroy) => {
    const server = await serve({ policies: [SLOT] }, { 'GET /destroy': destroy, 'GET /quick': (_, res) => res.end() })
    await expect(send(server, { path: '/destroy', ...X })).rejects.toThrow()
    await expect.poll(async () => (await send(server, { path: '/quick', ...X })).status).toBe(200)
  })

  test('adds no listener to a response for another middleware', async () => {
    const warnings: unknown[] = []
    const onWarning = (warning: Error) => warnings.push(warning.name)
    process.on('warning', onWarning)
    onTestFinished(() => void process.off('warning', onWarning))
    const policies = [SLOT]
    const limits = Array.from({ length: 12 }, (_, at) => sluice({ policies, keyPrefix: `layer${at}`, log: () => {} }))
    const server = await listen(limits, { 'GET /': (_, res) => res.end() })
    for (let sent = 0; sent < 2; sent++) await expect.poll(async () => (await send(server, X)).status).toBe(200)
    expect(warnings).toEqual([])
  })
})

test('sluice() gives the slot back of a handler whose promise settles after its client has gone', async () => {
  const limit = sluice({ policies: [SLOT], log: () => {} })
  const clients = new LeavingClients()
  const server = await listen((req, res) =>
    limit(req, res, async () => {
      if (req.url === '/quick') return res.end()
      const closed = once(res, 'close')
      clients.onBegun(res)
      return closed
    }),
  )
  await clients.sendAndLeave(server, { path: '/left', ...X })
  await expect.poll(async () => (await send(server, { path: '/quick', ...X })).status).toBe(200)
})

test('sluice() gives the slot back of a response whose head was sent before it', async () => {
  const limit = sluice({ policies: [SLOT], log: () => {} })
  const server = await listen((req, res) => {
    if (req.url === '/begun') res.writeHead(200).flushHeaders()
    limit(req, res, () => res.end())
  })
  await send(server, { path: '/begun', ...X })
  await expect.poll(async () => (await send(server, { path: '/quick', ...X })).status).toBe(200)
})

test('sluice() reads the headers of a request that no server has read, each value of a repeated one', async () => {
  const limit = sluice({ limits: '1/1h', anonymous: 'deny', log: () => {} })
  // As serverless-http and @codegenie/serverless-express make it.
  const decide = (headers: IncomingMessage['headers']) => {
    const request = Object.assign(new IncomingMessage(new Socket()), { url: '/', method: 'GET', headers })
    const response = new ServerResponse(request)
    return new Promise((resolve) => {
      response.end = () => {
        resolve(response.statusCode)
        return response
      }
      limit(request, response, () => resolve('admitted'))
    })
  }
  const X = { authorization: 'Bearer X' }
  expect([await decide(X), await decide({ authorization: 'Bearer Y' })]).toEqual(['admitted', 'admitted'])
  expect(await decide({ authorization: 'Bearer Z, Bearer Y' })).toBe(401)
})

describe("sluice() as a hook of Fastify's own", () => {
  async function createApp(options: SluiceOptions) {
    const app = fastify()
    app.addHook('onRequest', async (_, reply) => void reply.header('Access-Control-Allow-Origin', '*'))
    app.addHook('onRequest', sluice({ log: () => {}, ...options }))
    app.addHook('onSend', async (_, reply) => void reply.header('X-Sent', reply.statusCode))
    app.get('/', async () => 'hello')
    onTestFinished(() => app.close())
    return app
  }

  test('refuses through the reply, with its headers and its hooks', async () => {
    const app = await createApp({ limits: '1/1h' })
    const inject = () => app.inject({ url: '/', ...X })
    expect(await inject()).toMatchObject({ statusCode: 200, body: 'hello' })
    const { statusCode, headers } = await inject()
    expect(statusCode).toBe(429)
    expect(headers).toMatchObject({ 'access-control-allow-origin': '*', 'x-sent': '429', 'retry-after': '3600' })
    expect(headers['content-type']).toBe('application/problem+json')
    expect(headers.ratelimit).toMatch(/^"default-1h";r=0/)
  })

  test('lets onLimited answer with the headers of the reply', async () => {
    const app = await createApp({ limits: '1/1h', onLimited: (_, res) => void res.end('wait') })
    const inject = () => app.inject({ url: '/', ...X })
    await inject()
    const { statusCode, headers, body } = await inject()
    expect([statusCode, body, headers['access-control-allow-origin']]).toEqual([429, 'wait', '*'])
  })

  test('counts two credentials of an injected request as none', async () => {
    const app = await createApp({ limits: '9/1h', anonymous: 'deny' })
    const both = { authorization: ['Bearer X', 'Bearer Y'] as never }
    expect((await app.inject({ url: '/', headers: both })).statusCode).toBe(401)
  })
})
