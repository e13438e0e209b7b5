/**
 * Serves one framework's API on a free port of 127.0.0.1 and prints the port: `node main.js express5`. Each API has the
 * routes of `../routes.ts`, written as the framework's own documentation writes them, and says which of them served a
 * request in the field X-Handler.
 */
import { once } from 'node:events'
import { createServer } from 'node:http'
import { ROUTES } from '../routes.ts'

const routes = Object.entries(ROUTES).map(([name, route]) => [name, ...route.split(' ')])

/** Starts an API by the name of its framework; what limits it within, some take first. */
export const APIS = {
  express4: (limit) => startExpress('express4', limit),
  express5: (limit) => startExpress('express5', limit),
  fastify4: (limit) => startFastify('fastify4', limit),
  fastify5: (limit) => startFastify('fastify5', limit),
  koa: startKoa,
  h3v1: startH3V1,
  h3v2: startH3V2,
  hono: startHono,
}

async function startExpress(version, limit) {
  const [{ default: express }, { default: methodOverride }] = await Promise.all([
    import(version),
    import('method-override'),
  ])
  const app = express()
  if (limit) app.use(limit)
  for (const field of ['X-HTTP-Method', 'X-HTTP-Method-Override', 'X-Method-Override', '_method']) {
    app.use(methodOverride(field))
  }
  for (const [name, method, path] of routes) {
    app[method.toLowerCase()](path, (_, response) => response.set('X-Handler', name).send(name))
  }
  return listen(app)
}

async function startFastify(version, limit) {
  const { default: fastify } = await import(version)
  const app = fastify({
    // Its own destroys the connection before the answer has gone.
    clientErrorHandler: (_, socket) => {
      socket.end('HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n')
    },
  })
  if (limit) app.addHook('onRequest', limit)
  for (const [name, method, url] of routes) {
    app.route({ method, url, handler: (_, reply) => reply.header('X-Handler', name).send(name) })
  }
  await app.listen({ host: '127.0.0.1', port: 0 })
  return app.server
}

async function startKoa() {
  const [{ default: Koa }, { default: Router }] = await Promise.all([import('koa'), import('@koa/router')])
  const router = new Router()
  for (const [name, method, path] of routes) {
    router[method.toLowerCase()](path, (context) => {
      context.set('X-Handler', name)
      context.body = name
    })
  }
  const app = new Koa()
  // It logs what clients have spoilt.
  app.silent = true
  return listen(app.use(router.routes()).use(router.allowedMethods()).callback())
}

async function startH3V1() {
  const { createApp, createRouter, eventHandler, setResponseHeader, toNodeListener } = await import('h3-1')
  const router = createRouter()
  for (const [name, method, path] of routes) {
    const handler = eventHandler((event) => {
      setResponseHeader(event, 'X-Handler', name)
      return name
    })
    router[method.toLowerCase()](path, handler)
  }
  return listen(toNodeListener(createApp().use(router)))
}

async function startH3V2() {
  const [{ H3 }, { toNodeHandler }] = await Promise.all([import('h3-2'), import('h3-2/node')])
  const app = new H3()
  for (const [name, method, path] of routes) {
    app[method.toLowerCase()](path, (event) => {
      event.res.headers.set('X-Handler', name)
      return name
    })
  }
  return listen(toNodeHandler(app))
}

async function startHono(limit) {
  const [{ Hono }, { getRequestListener }] = await Promise.all([import('hono'), import('@hono/node-server')])
  const app = new Hono()
  if (limit) app.use(limit)
  for (const [name, method, path] of routes) app.on(method, path, (c) => c.text(name, 200, { 'X-Handler': name }))
  return listen(getRequestListener(app.fetch))
}

async function listen(listener) {
  const server = createServer(listener)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return server
}

if (import.meta.main) {
  const server = await APIS[process.argv[2]]()
  // Connections are the gateway's to end.
  server.keepAliveTimeout = 0
  console.log(server.address().port)
  // Some tell of each path that they cannot decode.
  console.warn = console.error = () => {}
  // The end of the test is that of its input.
  process.stdin.on('end', () => process.exit()).resume()
}
