/** What only HTTP/2 has: cookies that come one by one, and streams that end without their connection. */
import { once } from 'node:events'
import type { ClientHttp2Stream, Http2ServerRequest, Http2ServerResponse } from 'node:http2'
import { expect, test } from 'vitest'
import { type SluiceOptions, sluice } from '../../../src/node.ts'
import { X } from '../matrix/adapter.ts'
import { listenHttp2 } from '../matrix/node-adapters.ts'

function serveHttp2(options: SluiceOptions<Http2ServerRequest, Http2ServerResponse>, onHandled: () => void = () => {}) {
  const limit = sluice({ log: () => {}, ...options })
  return listenHttp2((req: Http2ServerRequest, res: Http2ServerResponse) =>
    limit(req, res, () => {
      onHandled()
      if (res.stream.closed) res.end()
      else req.pipe(res)
    }),
  )
}

test('sluice() counts by headers, and by cookies that come one by one', async () => {
  const policies = [
    { name: 'keys', limits: '2/1h', anonymous: 'skip' },
    { name: 'sids', limits: '1/1h', by: 'cookie:sid', anonymous: 'skip' },
  ]
  const send = await serveHttp2({ policies })
  const first = await send(X)
  expect([first.status, first.headers.get('RateLimit')]).toEqual([200, '"keys-1h";r=1;t=3600'])
  expect(await first.text()).toBe('')
  expect([(await send(X)).status, (await send(X)).status]).toEqual([200, 429])
  expect((await send({ headers: { cookie: ['a=1', 'sid=7'] } })).status).toBe(200)
  expect((await send({ headers: { cookie: ['sid=7', 'a=2'] } })).status).toBe(429)
})

test('sluice() gives back the slot of a stream that was closed before it was decided', async () => {
  const handled = Promise.withResolvers<void>()
  const begun = Promise.withResolvers<ClientHttp2Stream>()
  const send = await serveHttp2(
    {
      policies: [{ name: 'slots', limits: '1', algorithm: 'concurrency', slot_ttl: '1h' }],
      async skip(req) {
        if (req.url !== '/left') return false
        const gone = once(req.stream, 'close')
        ;(await begun.promise).close()
        await gone
        return false
      },
    },
    handled.resolve,
  )
  void send({ path: '/left' }, begun.resolve).catch(() => {})
  await handled.promise
  await expect.poll(async () => (await send({})).status).toBe(200)
})

test('sluice() keeps the slot of a stream that was closed until its handler, which uses callbacks, ends the response', async () => {
  const begun = Promise.withResolvers<ClientHttp2Stream>()
  const handling = Promise.withResolvers<Http2ServerResponse>()
  const limit = sluice<Http2ServerRequest, Http2ServerResponse>({
    policies: [{ name: 'slots', limits: '1', algorithm: 'concurrency', slot_ttl: '1h' }],
    log: () => {},
  })
  const send = await listenHttp2((req, res) =>
    limit(req, res, () => {
      if (req.url === '/left') handling.resolve(res)
      else res.end()
    }),
  )
  void send({ path: '/left' }, begun.resolve).catch(() => {})
  const response = await handling.promise
  const gone = once(response.stream, 'close')
  ;(await begun.promise).close()
  await gone
  // It may be released in the turns that follow, if at all.
  for (let i = 0; i < 3; i++) expect((await send({})).status).toBe(429)
  response.end()
  await expect.poll(async () => (await send({})).status).toBe(200)
})

test('sluice() gives back the slot of a handler, which uses callbacks, that destroys its session', async () => {
  const limit = sluice<Http2ServerRequest, Http2ServerResponse>({
    policies: [{ name: 'slots', limits: '1', algorithm: 'concurrency', slot_ttl: '1h', by: 'ip' }],
    log: () => {},
  })
  const serve = (req: Http2ServerRequest, res: Http2ServerResponse) =>
    limit(req, res, () => {
      if (req.url === '/destroy') res.stream.session?.destroy()
      else res.end()
    })
  const [first, second] = [await listenHttp2(serve), await listenHttp2(serve)]
  const begun = Promise.withResolvers<ClientHttp2Stream>()
  void first({ path: '/destroy' }, begun.resolve).catch(() => {})
  await once(await begun.promise, 'close')
  await expect.poll(async () => (await second({})).status).toBe(200)
})
