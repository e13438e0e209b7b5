/** The law of costs in the gateway and around real proxies: in front of Express, whatever a client asks for. */
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import httpProxy from '@fastify/http-proxy'
import { serve } from '@hono/node-server'
import compression from 'compression'
import express from 'express'
import fc from 'fast-check'
import fastify from 'fastify'
import { Hono } from 'hono'
import { compress } from 'hono/compress'
import { createProxyMiddleware } from 'http-proxy-middleware'
import { describe, expect, inject, onTestFinished, test } from 'vitest'
import { sluice as sluiceOfHono } from '../../src/hono.ts'
import { sluice } from '../../src/node.ts'
import {
  ACTUAL_COST,
  type CostCase,
  costCase,
  isReadable,
  judgeCharge,
  makeAnswer,
  recordStore,
  UNTOLD,
} from '../middleware/matrix/cost-cases.ts'
import { startGateway } from '../support/gateway.ts'
import { openRequest, responseTo } from '../support/http-client.ts'
import { type Part, startParts } from '../support/parts.ts'
import { expectProperty } from '../support/property.ts'
import { connectRedis } from '../support/redis-client.ts'
import { share } from '../support/share.ts'
import { startUpstream } from '../support/upstream.ts'
import { readUnitsAdmitted } from '../system/kit/streams.ts'

/** Headers by which a client changes what can be read: Express, Spring or a file server answers otherwise to each. */
const WISHES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  nothing: {},
  gzip: { 'Accept-Encoding': 'gzip' },
  br: { 'Accept-Encoding': 'br, gzip' },
  charset: { Accept: 'application/json;charset=UTF-16BE', 'Accept-Charset': 'utf-16' },
  condition: { 'If-None-Match': '*' },
  range: { Range: 'bytes=0-9' },
}

/** The limiter follows a client that leaves or stalls for up to 30 seconds, also on an idle machine. */
const PATIENCE_MS = 240_000

interface LawCase extends CostCase {
  readonly wish: string
  /** Express answers, by `res.json()`, `res.jsonp()` or `res.sendFile()`; or the bytes of the case, whatever was asked for. */
  readonly by: 'json' | 'jsonp' | 'bytes'
}

const lawCase: fc.Arbitrary<LawCase> = fc
  .tuple(costCase, fc.constantFrom(...Object.keys(WISHES)), fc.constantFrom('json', 'jsonp', 'bytes' as const))
  .map(([own, wish, by]) => ({ ...own, wish, by: by as LawCase['by'] }))

let current: LawCase

/** An API of Express that compresses, honors conditions, and answers JSONP; Spring's way with charsets added. */
function createApi() {
  const app = express()
  app.use(compression({ threshold: 0 }))
  app.all('/json', (req, res) => {
    const value = { text: 'usage "\\ü{'.repeat(current.padding / 10), usage: { total_tokens: current.used } }
    // Spring MVC with Jackson writes in the charset that a client accepts.
    if (/utf-16be/i.test(req.headers.accept ?? '')) {
      res.type('application/json;charset=UTF-16BE').send(Buffer.from(JSON.stringify(value), 'utf16le').swap16())
    } else res.json(value)
  })
  app.all('/jsonp', (_, res) => void res.jsonp({ usage: { total_tokens: current.used } }))
  app.all('/bytes', (_, res) => {
    const { status, headers, chunks } = makeAnswer(current)
    res.writeHead(status, { ...headers, 'Cache-Control': 'no-transform' })
    Readable.from(chunks).pipe(res)
  })
  return app
}

const toPath = ({ by }: LawCase) => (by === 'jsonp' ? '/jsonp?callback=f' : `/${by}`)

async function ask(url: URL, own: LawCase): Promise<void> {
  const headers = { Authorization: 'Bearer X', ...WISHES[own.wish] }
  const answer = await responseTo(openRequest(url, { method: own.method, path: toPath(own), headers }).end())
  try {
    for await (const _ of answer) if (own.leaves) break
  } catch {
    // A proxy may break off what it does not understand.
  }
}

/** Tests that an answer must tell its cost: the gateway asks for one that it can read, whatever the client wishes. */
function mustTell(own: LawCase, isGateway: boolean): boolean {
  if (own.leaves || own.method === 'HEAD') return false
  if (own.by === 'bytes') return isReadable(own)
  if (own.by === 'jsonp') return false
  return isGateway || own.wish === 'nothing' || own.wish === 'gzip' || own.wish === 'br' || own.wish === 'charset'
}

describe('the gateway', () => {
  const upstream = share(() => startUpstream(createApi()))
  const prefix = crypto.randomUUID()
  const common = { by: 'global', actual_cost: ACTUAL_COST, untold: UNTOLD }
  const gateway = share(() =>
    startGateway({
      UPSTREAM_URL: upstream.url,
      RATE_LIMITS: 'off',
      KEY_PREFIX: prefix,
      POLICIES: [
        { ...common, name: 'tokens', limits: '1000000000/1d', allow_large_log: true },
        { name: 'slots', limits: '9', algorithm: 'concurrency', by: 'global', slot_ttl: '1h' },
      ],
    }),
  )

  test('charges what its API has used, or what the policy says', { timeout: 120_000 }, async () => {
    const redis = await connectRedis(inject('redisPort'))
    const send = (command: readonly string[]) => redis.sendCommand([...command])
    const find = async (policy: string) => (await redis.keys(`${prefix}:${policy}:*`))[0] ?? ''
    let charged = 0
    const counts = { known: 0, untold: 0 }
    await expectProperty(
      fc.asyncProperty(lawCase, async (own) => {
        current = own
        await ask(gateway.url, own)
        // A slot is free when the cost is known.
        await expect.poll(async () => redis.zCard(await find('slots')), { timeout: 35_000, interval: 5 }).toBe(0)
        const all = await readUnitsAdmitted(send, await find('tokens'))
        const units = all - charged
        charged = all
        if (mustTell(own, true)) expect(units).toBe(own.used)
        else if (units !== own.used) expect(units).toBeGreaterThanOrEqual(UNTOLD)
        counts[units === own.used ? 'known' : 'untold']++
      }),
      4_000,
      0.3,
    ).finally(() => redis.close())
    expect(Math.min(counts.known, counts.untold)).toBeGreaterThan(0)
    expect(gateway.log.some((line) => line.includes('"cost_untold"'))).toBe(true)
  })
})

type Options = Parameters<typeof sluice>[0]

async function listen(server: Server): Promise<Part & { readonly url: URL }> {
  if (!server.listening) await once(server.listen(0, '127.0.0.1'), 'listening')
  const stop = async () => {
    server.close()
    server.closeAllConnections()
  }
  return { url: new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`), stop }
}

/** Programs around the middleware, in front of the API or as it. */
const HOSTS: Readonly<Record<string, (options: Options, api: string) => Promise<Part & { readonly url: URL }>>> = {
  'Express, compression() outside': async (options) => {
    const app = express().use(compression({ threshold: 0 }), sluice(options), createApi())
    return listen(createServer(app))
  },
  'Express, compression() inside': async (options) => {
    const app = express().use(sluice(options), createApi())
    return listen(createServer(app))
  },
  'Express with http-proxy-middleware': async (options, target) => {
    const app = express().use(sluice(options), createProxyMiddleware({ target }))
    return listen(createServer(app))
  },
  'Fastify with @fastify/http-proxy': async (options, upstream) => {
    const app = fastify()
    app.addHook('onRequest', sluice(options))
    await app.register(httpProxy, { upstream })
    await app.listen({ host: '127.0.0.1', port: 0 })
    return listen(app.server)
  },
  'Hono with compress(), which fetches': async (options, api) => {
    const app = new Hono()
    app.use(sluiceOfHono(options as never), compress({ threshold: 0 }))
    app.all('*', ({ req }) =>
      fetch(new URL(req.url.replace(/^https?:\/\/[^/]+/, ''), api), { method: req.method, headers: req.raw.headers }),
    )
    return listen(serve({ fetch: app.fetch, hostname: '127.0.0.1', port: 0 }) as Server)
  },
}

test.each(Object.entries(HOSTS))(
  '%s charges what the API has used, or what the policy says',
  { timeout: PATIENCE_MS + 60_000 },
  async (_, start) => {
    const { state, store } = recordStore()
    const clock = { nowMs: 1_700_000_000_000 }
    const lines: unknown[] = []
    const log = (_level: string, { event }: { readonly event: string }) =>
      void (event === 'cost_untold' && lines.push(event))
    const policies = [
      { name: 'tokens', limits: '1000000000/1d', algorithm: 'quota', actual_cost: ACTUAL_COST, untold: UNTOLD },
      { name: 'slots', limits: '9', algorithm: 'concurrency' },
    ] as const
    const site = await startParts(async (add) => {
      const upstream = await add(startUpstream(createApi()))
      return { host: await add(start({ policies, store, log, now: () => clock.nowMs } as never, upstream.url)) }
    })
    onTestFinished(async () => void (await site.stop()))
    await expectProperty(
      fc.asyncProperty(lawCase, async (own) => {
        current = own
        Object.assign(state, { charged: 0, released: 0 })
        lines.length = 0
        clock.nowMs += 2_000
        await ask(site.host.url, own)
        await expect.poll(() => state.released, { timeout: 35_000, interval: 2 }).toBe(1)
        judgeCharge({ used: own.used, isKnown: mustTell(own, false), charged: state.charged, untold: lines.length })
      }),
      4_000,
      0.15,
      PATIENCE_MS,
    )
  },
)
