/** What only Express has: routers below a prefix, paths that were changed, and parsers before the middleware. */
import express from 'express'
import { expect, expectTypeOf, test } from 'vitest'
import { type RateLimit, type SluiceOptions, sluice } from '../../../src/node.ts'
import { sendInTurn } from '../../support/http-client.ts'
import { listen } from '../matrix/node-adapters.ts'

const FORM = { 'Content-Type': 'application/x-www-form-urlencoded' }

const quiet = (options: SluiceOptions) => sluice({ log: () => {}, ...options })

function serveApp(prepare: (app: express.Express) => unknown): Promise<URL> {
  const app = express()
  prepare(app)
  return listen(app)
}

test('requests of Express have the decision, as far as types go', () => {
  expectTypeOf<express.Request['rateLimit']>().toEqualTypeOf<RateLimit | undefined>()
  expectTypeOf(quiet({ limits: '1/1s' })).toExtend<express.RequestHandler>()
})

test('sluice() matches whole paths below the prefix of a router', async () => {
  const server = await serveApp((app) => {
    const router = express.Router()
    router.use(quiet({ policies: [{ name: 'one', limits: '1/1h', match: 'GET /api/a', by: 'ip' }] }))
    router.get('/:name', (_, res) => res.send('ok'))
    app.use('/api', router)
  })
  const paths = ['/api/a', '/api/b', '/API/a', '/api/a/'].map((path) => ({ path }))
  expect(await sendInTurn(server, paths)).toEqual([200, 200, 429, 429])
})

test('sluice() matches the path that is routed if another middleware has changed it', async () => {
  const limit = quiet({ policies: [{ name: 'one', limits: '1/1h', match: '/new', by: 'ip' }] })
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
  ['a form', express.urlencoded({ extended: true }), FORM, 'user=ada', 'user[]=ada'],
  ['JSON', express.json(), { 'Content-Type': 'application/json' }, '{"user":"ada"}', '{"user":["ada"]}'],
])('sluice() takes what a parser before it has made of %s', async (_, parser, headers, ada, list) => {
  const server = await serveApp((app) => {
    app.use(parser, quiet({ limits: '1/1h', by: 'form:user' }))
    app.post('/', (_, res) => res.send('ok'))
  })
  const requests = [ada, ada, list, '{}'].map((body) => ({ method: 'POST', body, headers }))
  expect(await sendInTurn(server, requests)).toEqual([200, 429, 401, 401])
})

test('sluice() finds no identity in a body that was read without a trace', async () => {
  const server = await serveApp((app) => {
    app.use((req, _, next) => {
      req.resume().on('end', next)
    })
    app.use(quiet({ limits: '1/1h', by: 'form:user', anonymous: 'skip' }))
    app.post('/', (_, res) => res.send('ok'))
  })
  const form = { method: 'POST', body: 'user=a', headers: FORM }
  expect(await sendInTurn(server, [form, form])).toEqual([200, 429])
})
