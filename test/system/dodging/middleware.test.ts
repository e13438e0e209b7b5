/** As test/system/dodging has it, with the middleware inside of the framework: it sees targets as they were sent. */
import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import express from 'express'
import fastify from 'fastify'
import { Hono } from 'hono'
import { afterEach, expect, inject, test } from 'vitest'
import { type SluiceOptions as HonoOptions, sluice as honoSluice } from '../../../src/hono.ts'
import { type SluiceOptions, sluice } from '../../../src/node.ts'
import { dodgeAt } from './dodge.ts'
import { listPolicies, ROUTES, type Router } from './routes.ts'

const SPELLINGS = 1_000

let server: Server
afterEach(() => {
  server.close()
  server.closeAllConnections()
})

async function listen(listener: RequestListener): Promise<Server> {
  const started = createServer(listener)
  await once(started.listen(0, '127.0.0.1'), 'listening')
  return started
}

const createOptions = (router: Router) =>
  ({ policies: listPolicies(router), log: () => {} }) as unknown as SluiceOptions
const routes = Object.entries(ROUTES).map(([name, route]) => [name, ...route.split(' ')] as [string, string, string])

const FRAMEWORKS: Readonly<Record<string, () => Promise<Server>>> = {
  'Express 5, which ignores the case of paths'() {
    const app = express()
    app.use(sluice(createOptions({ takesNothing: false })))
    app.use((req, _, next) => {
      // As method-override does it.
      if (req.method === 'POST') req.method = req.get('X-HTTP-Method-Override')?.split(',')[0]?.toUpperCase() ?? 'POST'
      next()
    })
    for (const [name, method, path] of routes) {
      app[method.toLowerCase() as 'get'](path, (_, res) => void res.set('X-Handler', name).send(name))
    }
    app.use(((_error, _req, res, _next) => void res.status(500).end()) satisfies express.ErrorRequestHandler)
    return listen(app)
  },
  async 'Fastify 5'() {
    const app = fastify({
      // Its own destroys the connection before the answer has gone.
      clientErrorHandler: (_, socket) => {
        socket.end('HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n')
      },
    })
    app.addHook('onRequest', sluice(createOptions({ takesNothing: true })))
    for (const [name, method, url] of routes) {
      app.route({ method, url, handler: async (_, reply) => void reply.header('X-Handler', name).send(name) })
    }
    await app.listen({ host: '127.0.0.1', port: 0 })
    return app.server
  },
  Hono() {
    const app = new Hono()
    app.use(honoSluice(createOptions({ takesNothing: false }) as unknown as HonoOptions))
    for (const [name, method, path] of routes) app.on(method, path, (c) => c.text(name, 200, { 'X-Handler': name }))
    return listen(getRequestListener(app.fetch))
  },
}

test.each(Object.keys(FRAMEWORKS))('%s serves no spelling of a limited route that was not charged', async (name) => {
  server = (await FRAMEWORKS[name]?.()) as Server
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  const { seed, scale } = inject('fuzz')
  const { reached, bypasses } = await dodgeAt(url, { seed, spellings: Math.ceil(SPELLINGS * scale) })
  expect(bypasses).toEqual([])
  expect(reached).toBeGreaterThan(100)
})
