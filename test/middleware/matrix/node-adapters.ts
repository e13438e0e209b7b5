/** Middleware behind real connections: `(req, res, next)` in Node's servers and frameworks, and Hono on Node. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http'
import {
  type ClientHttp2Stream,
  connect,
  createServer as createHttp2Server,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type IncomingHttpHeaders,
} from 'node:http2'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import middie from '@fastify/middie'
import { serve } from '@hono/node-server'
import express from 'express'
import fastify, { type FastifyReply, type FastifyRequest } from 'fastify'
import { onTestFinished } from 'vitest'
import { sluice as sluiceOfHono } from '../../../src/hono.ts'
import { type NodeMiddleware, type RateLimited, sluice } from '../../../src/node.ts'
import { openRequest, responseTo } from '../../support/http-client.ts'
import {
  type Adapter,
  type AppRequest,
  adaptOptions,
  findRoute,
  type Options,
  type Routes,
  type Sent,
} from './adapter.ts'
import { createHonoApp } from './web-adapters.ts'

type NodeHandler = (req: IncomingMessage, res: ServerResponse) => unknown
export type NodeRoutes = Readonly<Record<string, NodeHandler>>

export interface Framework {
  readonly name: string
  /** Starts an app with the middleware before its routes. */
  listen(limits: readonly NodeMiddleware[], routes: NodeRoutes): Promise<URL>
}

const split = (route: string) => route.split(' ') as ['GET' | 'POST', string]

export const FRAMEWORKS: readonly Framework[] = [
  { name: 'Node http', listen: (limits, routes) => listen(compose(limits, routes)) },
  {
    name: 'Express 5',
    listen(limits, routes) {
      const app = express()
      for (const limit of limits) app.use(limit)
      app.use(express.urlencoded())
      for (const [route, answer] of Object.entries(routes)) {
        const [method, path] = split(route)
        if (route === '*') app.use((req, res) => answer(req, res))
        else app[method === 'GET' ? 'get' : 'post'](path, (req, res) => answer(req, res))
      }
      app.use(((error, _req, res, _next) => {
        res.status(500).send(`${error}`)
      }) satisfies express.ErrorRequestHandler)
      return listen(app)
    },
  },
  {
    name: 'Fastify with @fastify/middie',
    listen: (limits, routes) =>
      listenFastify(routes, async (app) => {
        await app.register(middie)
        for (const limit of limits) app.use(limit)
      }),
  },
  {
    name: 'Fastify with a hook',
    listen: (limits, routes) =>
      listenFastify(routes, (app) => {
        for (const limit of limits) app.addHook('onRequest', limit)
      }),
  },
]

async function listenFastify(routes: NodeRoutes, prepare: (app: ReturnType<typeof fastify>) => unknown): Promise<URL> {
  const app = fastify()
  await prepare(app)
  for (const [route, answer] of Object.entries(routes)) {
    const handler = async (request: FastifyRequest, reply: FastifyReply) => {
      await answer(Object.assign(request.raw, { body: request.body }), reply.raw)
      reply.hijack()
    }
    const [method, url] = split(route)
    if (route === '*') app.all('*', handler)
    else app.route({ method, url, handler })
  }
  const types = ['application/json', 'application/x-www-form-urlencoded']
  app.addContentTypeParser(types, { parseAs: 'string' }, (_, body, done) => done(null, body))
  app.setErrorHandler((error, _, reply) => reply.code(500).send(`${error}`))
  await app.listen({ host: '127.0.0.1', port: 0 })
  return keepUntilEnd(app.server)
}

/** Calls each middleware as a framework does, and then the app. */
function compose(limits: readonly NodeMiddleware[], routes: NodeRoutes): RequestListener {
  return function passOn(req, res, [limit, ...others] = limits) {
    const answer = findRoute(routes, req.method, req.url) ?? (() => res.writeHead(404).end())
    const fail = (error: unknown) => void res.writeHead(500).end(`${error}`)
    if (!limit) Promise.resolve(answer(req, res)).catch(fail)
    else limit(req, res, (error) => (error ? fail(error) : passOn(req, res, others)))
  }
}

/** Starts a server, which ends with the test, and so do its connections. */
export async function listen(listener: RequestListener): Promise<URL> {
  const server = createServer(listener)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return keepUntilEnd(server)
}

function keepUntilEnd(server: Server): URL {
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  return new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
}

export const NODE_ADAPTERS: readonly Adapter[] = [
  ...FRAMEWORKS.map(
    ({ name, listen }): Adapter => ({
      name: `sluice() in ${name}`,
      make: (options) => sluice(options as never),
      async serve(layers, routes) {
        const url = await listen(layers.map(createLimit), toNodeRoutes(routes))
        return (sent) => sendOverHttp1(url, sent)
      },
    }),
  ),
  {
    name: 'sluice() in Node http2',
    make: (options) => sluice(options as never),
    // Requests and responses of HTTP/2 have the methods of those of HTTP/1.1.
    serve: (layers, routes) => listenHttp2(compose(layers.map(createLimit), toNodeRoutes(routes)) as never),
  },
  {
    name: 'sluice() of Hono on @hono/node-server',
    make: (options) => sluiceOfHono(options as never),
    async serve(layers, routes) {
      const server = serve({ fetch: createHonoApp(layers, routes).fetch, hostname: '127.0.0.1', port: 0 }) as Server
      await once(server, 'listening')
      const url = keepUntilEnd(server)
      return (sent) => sendOverHttp1(url, sent)
    },
  },
]

function createLimit({ onLimited, ...options }: Options): NodeMiddleware {
  return sluice({
    ...adaptOptions(options, readRequest),
    onLimited: onLimited && ((_, res, rateLimit) => writeResponse(res, onLimited(rateLimit))),
  })
}

function toNodeRoutes(routes: Routes): NodeRoutes {
  const entries = Object.entries(routes).map(([route, handler]): [string, NodeHandler] => [
    route,
    async (req: IncomingMessage & Partial<RateLimited>, res) =>
      writeResponse(res, await handler(readRequest(req), req.rateLimit)),
  ])
  return Object.fromEntries(entries)
}

function readRequest(req: IncomingMessage & { readonly body?: unknown }): AppRequest {
  return {
    path: req.url ?? '',
    get headers() {
      return new Headers(Object.entries(req.headers).filter(([name]) => !name.startsWith(':')) as [string, string][])
    },
    async text() {
      if (req.body === undefined || req.body === null) return text(req)
      return typeof req.body === 'string' ? req.body : `${new URLSearchParams(req.body as Record<string, string>)}`
    },
  }
}

function writeResponse(res: ServerResponse, { status, headers, body }: Response): void {
  res.writeHead(status, Object.fromEntries(headers))
  if (body && res.req.method !== 'HEAD') Readable.fromWeb(body as never).pipe(res)
  else res.end()
}

async function sendOverHttp1(url: URL, { body, hasUnknownLength, ...sent }: Sent): Promise<Response> {
  const headers = { ...sent.headers, ...(hasUnknownLength && { 'Transfer-Encoding': 'chunked' }) }
  const incoming = await responseTo(openRequest(url, { ...sent, headers }).end(body))
  return toResponse(sent, incoming.statusCode, incoming.headers, incoming)
}

/** Lets a client send two values of `authorization`. */
const SEVERAL_VALUES: object = { strictSingleValueFields: false }

/** Starts a server of HTTP/2, which ends with the test. @returns sends it a request, all over one connection */
export async function listenHttp2(listener: (req: Http2ServerRequest, res: Http2ServerResponse) => void) {
  const server = createHttp2Server(SEVERAL_VALUES, listener)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const client = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, SEVERAL_VALUES)
  onTestFinished(() => {
    client.destroy()
    server.close()
  })
  return async (sent: Sent, onBegun: (stream: ClientHttp2Stream) => void = () => {}): Promise<Response> => {
    const { method = 'GET', path = '/', headers, body } = sent
    const stream = client.request({ ':path': path, ':method': method, ...(headers as IncomingHttpHeaders) })
    onBegun(stream)
    // It says nothing of the length of a body.
    if (!stream.writableEnded) stream.end(body)
    const [{ ':status': status, ...fields }] = (await once(stream, 'response')) as [IncomingHttpHeaders]
    return toResponse(sent, Number(status), fields, stream)
  }
}

function toResponse(sent: Sent, status = 0, headers: IncomingHttpHeaders, body: Readable): Response {
  const isEmpty = sent.method === 'HEAD' || status === 204
  if (isEmpty) body.resume()
  const fields = Object.entries(headers).map(([name, value]): [string, string] => [name, String(value)])
  return new Response(isEmpty ? null : (Readable.toWeb(body) as never), { status, headers: fields })
}
