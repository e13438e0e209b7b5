/** What only servers of Node have: responses that are written piece by piece, and clients that go away meanwhile. */
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { type SluiceOptions, sluice } from '../../../src/node.ts'
import { openRequest, send, sendInTurn } from '../../support/http-client.ts'
import { exchange, LAST, readStatuses } from '../../support/raw-http.ts'
import { X, Y } from '../matrix/adapter.ts'
import { FRAMEWORKS, type NodeRoutes } from '../matrix/node-adapters.ts'

describe.each(FRAMEWORKS)('sluice() in $name', ({ listen }) => {
  const serve = (options: SluiceOptions, routes: NodeRoutes) => listen([sluice({ log: () => {}, ...options })], routes)

  test('sets the status and the headers of a refusal before onLimited answers', async () => {
    const onLimited: SluiceOptions['onLimited'] = (_, res, { outcome }) =>
      void res.setHeader('Content-Type', 'text/plain').end(`you are ${outcome}`)
    const server = await serve({ limits: '1/1h', onLimited }, { 'GET /': (_, res) => res.end() })
    await send(server, X)
    const { status, headers, body } = await send(server, X)
    expect([status, body.toString(), headers['cache-control']]).toEqual([429, 'you are limited', 'no-store'])
    expect(headers.ratelimit).toMatch(/^"default-1h";r=0/)
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

  test('lets no more handlers work at once than there are slots, although clients go away', async () => {
    const policies = [{ name: 'slots', limits: '2', algorithm: 'concurrency', slot_ttl: '1h' }] as const
    const working: ServerResponse[] = []
    const gone: Promise<unknown>[] = []
    const server = await serve(
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

  test('charges failures when the response says so, also if its client has gone', async () => {
    const policies = [{ name: 'guesses', limits: '2/1h', counts: 'failures' }] as const
    const closed = Promise.withResolvers<void>()
    let answer: () => unknown = () => {}
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
          res.once('close', () => closed.resolve())
          res.req.socket.destroy()
        },
      },
    )
    const readLeft = async (path: string, who = X) =>
      /r=(\d)/.exec(String((await send(server, { path, ...who })).headers.ratelimit))?.[1]
    expect([await readLeft('/right'), await readLeft('/wrong'), await readLeft('/right')]).toEqual(['2', '1', '1'])
    await expect(send(server, { path: '/late', ...X })).rejects.toThrow()
    answer()
    expect(await sendInTurn(server, [{ path: '/right', ...X }])).toEqual([429])
    await expect(send(server, { path: '/later', ...Y })).rejects.toThrow()
    await closed.promise
    answer()
    await expect.poll(() => readLeft('/right', Y)).toBe('1')
  })

  test('leaves an empty body of unknown length to the app', async () => {
    const policies = [{ name: 'users', limits: '1/1h', by: 'form:user', anonymous: 'skip' }] as const
    const read = (req: IncomingMessage, res: ServerResponse) =>
      req.readableEnded ? res.end('read') : req.once('end', () => res.end('read')).resume()
    const server = await serve({ policies }, { 'POST /': read, 'GET /last': (_, res) => res.end() })
    const type = 'Content-Type: application/x-www-form-urlencoded'
    const empty = `POST / HTTP/1.1\r\nHost: a\r\n${type}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`
    expect(readStatuses(await exchange(server, empty + LAST))).toEqual([200, 200])
  })
})
