/** What a middleware says of how it is used: once, and never of what is meant so. */
import { Hono } from 'hono'
import { describe, expect, test } from 'vitest'
import { limit } from '../../../src/fetch.ts'
import { sluice as sluiceOfHono } from '../../../src/hono.ts'
import { createLimiter, type Log, memoryStore } from '../../../src/index.ts'
import { type SluiceOptions, sluice } from '../../../src/node.ts'
import { sendInTurn } from '../../support/http-client.ts'
import { FRAMEWORKS } from '../matrix/node-adapters.ts'

/** Collects the events that are logged, without that of missing stores. */
function watch() {
  const events: string[] = []
  const log: Log = (_, { event }) => event !== 'in_memory_store' && events.push(event)
  return { events, log, make: (options: SluiceOptions) => sluice({ limits: '9/1h', by: 'ip', log, ...options }) }
}

const PROXIED = { headers: { 'X-Forwarded-For': '192.0.2.1' } }
const SECOND = { name: 'second', limits: '9/1h' }

describe.each(FRAMEWORKS)('$name', ({ listen }) => {
  test.each([
    ['nothing of X-Forwarded-For that nobody sends', {}, {}, []],
    ['once that X-Forwarded-For is not believed', {}, PROXIED, ['untrusted_proxy']],
    ['once that X-Real-IP is not believed', {}, { headers: { 'X-Real-IP': '192.0.2.1' } }, ['untrusted_proxy']],
    ['once that Forwarded is not believed', {}, { headers: { Forwarded: 'for=192.0.2.1' } }, ['untrusted_proxy']],
    ['nothing if proxies are trusted', { trustProxy: 1 }, PROXIED, []],
    ['nothing if a function tells the address', { trustProxy: () => '192.0.2.1' }, PROXIED, []],
    ['nothing if nobody is counted by address', { by: 'global' }, PROXIED, []],
    ['once that a function tells no address', { trustProxy: () => undefined }, {}, ['unknown_address']],
  ])('says %s', async (_, options, sent, expected) => {
    const { events, make } = watch()
    const server = await listen([make(options)], { '*': (_request, response) => response.end() })
    expect(await sendInTurn(server, [sent, sent])).toEqual([200, 200])
    expect(events).toEqual(expected)
  })

  test('says once that it counts requests twice, and nothing of two that count', async () => {
    const { events, make } = watch()
    const [one, two] = [make({ limits: '4/1h' }), make(SECOND)]
    const end = { '*': (_request: unknown, response: { end(): unknown }) => response.end() }
    const differing = await listen([one, two], end)
    expect(await sendInTurn(differing, [{}, {}])).toEqual([200, 200])
    expect(events).toEqual([])
    const doubled = await listen([one, one], end)
    expect(await sendInTurn(doubled, [{}, {}])).toEqual([200, 429])
    expect(events).toEqual(['counted_twice'])
  })
})

test('sluice() says nothing if it counts a request not even once', async () => {
  const { events, make } = watch()
  const [framework] = FRAMEWORKS
  const skipping = make({ skip: () => true })
  const exempting = make({ name: 'other', exempt: 'GET *' })
  const layers = [skipping, skipping, exempting, exempting]
  const server = await framework?.listen(layers, { '*': (_, response) => response.end() })
  expect(await sendInTurn(server as URL, [{}])).toEqual([200])
  expect(events).toEqual([])
})

test('limit() says once that it counts requests twice, but nothing of one that is sent again', async () => {
  const { events, log } = watch()
  const options = { limits: '99/1h', by: 'global', log } as const
  const wrap = (handler: (request: Request) => Response | Promise<Response>) => limit(handler, options)
  const once = wrap(() => new Response())
  const request = new Request('https://app.example/')
  await Promise.all([once(request), once(request), once(request)])
  for (let call = 0; call < 3; call++) await once(request)
  expect(events).toEqual([])

  let depth = 0
  const nested: (request: Request) => Promise<Response> = wrap((request) =>
    depth++ === 0 ? nested(request) : new Response(),
  )
  await nested(request)
  depth = 0
  await nested(request)
  expect(events).toEqual(['counted_twice'])
})

test('sluice() of Hono says once that it counts requests twice, and nothing of two that count', async () => {
  const { events, log } = watch()
  const [one, two] = [{}, SECOND].map((options) => sluiceOfHono({ limits: '9/1h', by: 'global', log, ...options }))
  if (!one || !two) throw new Error('two are made')
  const app = new Hono()
    .use('*', one)
    .use('*', two)
    .all('*', (c) => c.text('ok'))
  for (let call = 0; call < 3; call++) await app.request('/')
  expect(events).toEqual([])
  const doubled = new Hono()
    .use('*', one)
    .use('*', one)
    .all('*', (c) => c.text('ok'))
  for (let call = 0; call < 2; call++) await doubled.request('/')
  expect(events).toEqual(['counted_twice'])
})

// It is said once in a process, so that this is one test.
test('it is said once that limiters are made for each request, and nothing of other limiters', async () => {
  const { events, log } = watch()
  const repeat = async (work: (call: number) => unknown) => {
    for (let call = 0; call < 300; call++) await work(call)
  }
  // Tests and tools that count with each.
  await repeat(async () => {
    const limiter = createLimiter({ limits: '1/1h', log })
    await limiter.take('alice')
    await limiter.take('alice')
  })
  // Limiters for many customers, made when the program starts.
  for (let made = 0; made < 300; made++) createLimiter({ limits: '9/1h', log })
  await repeat(async () => createLimiter({ limits: '9/1h', log }))
  // A limiter for each customer, which is kept.
  const limiters = new Map<number, ReturnType<typeof createLimiter>>()
  for (let call = 0; call < 200; call++) {
    const known = limiters.get(call % 60) ?? createLimiter({ limits: '9/1h', log })
    limiters.set(call % 60, known)
    await known.take('alice')
  }
  // Counts that all share, for which each request makes its own limiter.
  const store = memoryStore()
  await repeat(() => createLimiter({ limits: '9/1h', store, log }).take('alice'))
  expect(events).toEqual([])

  const handle = () => limit(() => new Response(), { limits: '9/1h', by: 'global', log })
  await repeat(() => handle()(new Request('https://app.example/')))
  await repeat(() => createLimiter({ limits: '9/1h', log }).take('alice'))
  expect(events).toEqual(['made_per_request'])
})
