/** Hosts on Node: each starts an app behind the middleware, and gives a client of it. */
import 'reflect-metadata'
import { EventEmitter } from 'node:events'
import { createServer } from 'node:http'
import { createServer as createServer2 } from 'node:http2'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import codegenie from '@codegenie/serverless-express'
import awsLambdaFastify from '@fastify/aws-lambda'
import cors from '@fastify/cors'
import middie from '@fastify/middie'
import { serve } from '@hono/node-server'
import { All, Controller, Module, Req, Res } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { FastifyAdapter } from '@nestjs/platform-fastify'
import express from 'express'
import express4 from 'express4'
import fastify from 'fastify'
import fastify4 from 'fastify4'
import { Hono } from 'hono'
import { Hono as LeastHono } from 'hono-least'
import { serve as leastServe } from 'hono-node-server-least'
import Koa from 'koa'
import httpMocks from 'node-mocks-http'
import serverless from 'serverless-http'
import { sluice as sluiceHono } from 'sluice/hono'
import { sluice } from 'sluice/node'
import { answerInVariant, answerOnWeb, handlers } from './answer.js'
import { authenticate, overHttp, overHttp2 } from './promises.js'

const CORS = 'Access-Control-Allow-Origin'

/** Answers by the methods of Node's response. */
const onResponse = (res) => ({
  send: (text) => res.end(text),
  stream: (chunks) => pipeline(Readable.from(chunks), res),
})

async function listen(server, client = overHttp) {
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  const app = client(server.address().port, handlers)
  return {
    ...app,
    canDestroy: true,
    async close() {
      app.end?.()
      server.closeAllConnections?.()
      server.close()
    },
  }
}

function handleHttp(options) {
  const limit = sluice(options)
  return (req, res) => {
    res.setHeader(CORS, '*')
    req.user = authenticate(req.headers)
    const fail = () => {
      if (!res.destroyed && !res.stream?.destroyed) res.writeHead(500).end()
    }
    limit(req, res, (error) => (error ? fail() : answerInVariant(req, res, onResponse(res))?.catch(fail)))
  }
}

function createExpress(framework, options) {
  const app = framework()
  app.use((req, res, next) => {
    res.set(CORS, '*')
    req.user = authenticate(req.headers)
    next()
  })
  app.use(sluice(options))
  app.use((req, res, next) => {
    answerInVariant(req, res, onResponse(res))?.catch(next)
  })
  app.use((error, _req, res, next) => {
    if (res.headersSent) next(error)
    else res.status(500).end()
  })
  return app
}

function addFastifyRoutes(app, options, headers = { [CORS]: '*' }) {
  app.decorateRequest('user', null)
  app.addHook('onRequest', async (request, reply) => {
    reply.headers(headers)
    request.user = authenticate(request.headers)
  })
  app.addHook('onRequest', sluice(options))
  // @fastify/cors answers OPTIONS.
  app.get('/*', (request, reply) =>
    answerInVariant(request.raw, reply.raw, {
      send: (text) => reply.send(text),
      stream: (chunks) => reply.send(Readable.from(chunks)),
      leave: () => reply.hijack(),
    }),
  )
  return app
}

async function startFastify(framework, options, plugins = []) {
  const app = framework()
  for (const plugin of plugins) await app.register(plugin)
  addFastifyRoutes(app, options, plugins.length > 0 ? {} : { [CORS]: '*' })
  await app.listen({ port: 0, host: '127.0.0.1' })
  return toFastifyClient(app)
}

function toFastifyClient(app, close = () => app.close()) {
  return {
    ...overHttp(app.server.address().port, handlers),
    canDestroy: true,
    async inject(path, headers) {
      const { statusCode: status, headers: fields, payload: body } = await app.inject({ url: path, headers })
      return { status, headers: fields, body }
    },
    async close() {
      app.server.closeAllConnections()
      await close()
    },
  }
}

async function startKoa(options) {
  const app = new Koa({ proxy: false })
  app.silent = true
  app.use((ctx, next) => {
    ctx.set(CORS, '*')
    ctx.state.user = authenticate(ctx.headers)
    return next()
  })
  app.use(sluice(options))
  app.use((ctx) =>
    answerInVariant(ctx.req, ctx.res, {
      send(text) {
        ctx.body = text
      },
      stream(chunks) {
        ctx.body = Readable.from(chunks)
      },
      leave() {
        ctx.respond = false
      },
    }),
  )
  return listen(createServer(app.callback()))
}

async function startNest(options, adapter) {
  class AppController {
    answer(req, res) {
      const raw = res.raw ?? res
      const means = res.raw
        ? {
            send: (text) => res.send(text),
            stream: (chunks) => res.send(Readable.from(chunks)),
            leave: () => res.hijack(),
          }
        : onResponse(raw)
      return answerInVariant(req.raw ?? req, raw, means)
    }
  }
  // What decorators do, without a compiler for them.
  Controller()(AppController)
  Req()(AppController.prototype, 'answer', 0)
  Res()(AppController.prototype, 'answer', 1)
  const answer = Object.getOwnPropertyDescriptor(AppController.prototype, 'answer')
  All(['/', '/:path'])(AppController.prototype, 'answer', answer)
  class AppModule {}
  Module({ controllers: [AppController] })(AppModule)
  const app = await NestFactory.create(AppModule, ...(adapter ? [adapter] : []), { logger: false })
  app.enableCors()
  if (adapter) {
    const server = app.getHttpAdapter().getInstance()
    server.addHook('onRequest', async (request) => Object.assign(request, { user: authenticate(request.headers) }))
    server.addHook('onRequest', sluice(options))
  } else {
    app.use((req, _, next) => {
      req.user = authenticate(req.headers)
      next()
    })
    app.use(sluice(options))
  }
  await app.listen(0, '127.0.0.1')
  if (adapter) return toFastifyClient(app.getHttpAdapter().getInstance(), () => app.close())
  const server = app.getHttpServer()
  return {
    ...overHttp(server.address().port, handlers),
    canDestroy: true,
    async close() {
      server.closeAllConnections()
      await app.close()
    },
  }
}

function createHono(framework, options) {
  const app = new framework()
  app.use(async (c, next) => {
    c.header(CORS, '*')
    c.set('user', authenticate(c.req.header()))
    await next()
  })
  app.use(sluiceHono({ ...options, trustProxy: () => '192.0.2.1' }))
  app.all('*', (c) => answerOnWeb(c.req.raw))
  app.onError((_, c) => c.text('failed', 500))
  return app
}

async function startHono(framework, serveHono, options) {
  const app = createHono(framework, options)
  const server = await new Promise((resolve) => {
    const started = serveHono({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, () => resolve(started))
  })
  return {
    ...overHttp(server.address().port, handlers),
    isWeb: true,
    async inject(path, headers) {
      const response = await app.request(path, { headers: headers || {} })
      return { status: response.status, headers: Object.fromEntries(response.headers), body: await response.text() }
    },
    async close() {
      server.closeAllConnections()
      server.close()
    },
  }
}

/** An event of API Gateway, payload 1.0. */
const toEvent = (path, headers = {}) => ({
  resource: '/{proxy+}',
  httpMethod: 'GET',
  path,
  headers: { ...headers },
  multiValueHeaders: Object.fromEntries(Object.entries(headers || {}).map(([name, value]) => [name, [value]])),
  queryStringParameters: null,
  multiValueQueryStringParameters: null,
  requestContext: { identity: { sourceIp: '192.0.2.1' }, httpMethod: 'GET', path, stage: 'test' },
  body: null,
  isBase64Encoded: false,
})

/** The client of a function on AWS Lambda. */
const overLambda = (handle) => ({
  async send(path, headers) {
    const { statusCode, headers: one, multiValueHeaders: many, body } = await handle(toEvent(path, headers || {}), {})
    const fields = Object.entries({ ...many, ...one }).map(([name, value]) => [name.toLowerCase(), `${value}`])
    return { status: statusCode, headers: Object.fromEntries(fields), body }
  },
  async close() {},
})

/** Request and response of tests, without a server. */
async function startMocks(options) {
  const handle = handleHttp(options)
  return {
    send(url, headers) {
      const { req, res } = httpMocks.createMocks(
        { method: 'GET', url, headers: headers || {} },
        { eventEmitter: EventEmitter },
      )
      req.socket = { remoteAddress: '192.0.2.1' }
      return new Promise((resolve) => {
        handle(req, res)
        res.once('finish', () => setImmediate(answer))
        const answer = () => resolve({ status: res.statusCode, headers: res.getHeaders(), body: res._getData() })
      })
    },
    async close() {},
  }
}

/** Each by its name: a function from the options of the middleware to an app. */
export const NODE_HOSTS = {
  'node:http': (options) => listen(createServer(handleHttp(options))),
  'node:http2': (options) => listen(createServer2(handleHttp(options)), overHttp2),
  'Express 4': (options) => listen(createServer(createExpress(express4, options))),
  'Express 5': (options) => listen(createServer(createExpress(express, options))),
  'Fastify 4': (options) => startFastify(fastify4, options),
  'Fastify 5': (options) => startFastify(fastify, options),
  'Fastify 5, @fastify/cors and middie': (options) => startFastify(fastify, options, [cors, middie]),
  'Koa 3': startKoa,
  'NestJS 12, Express': (options) => startNest(options),
  'NestJS 12, Fastify': (options) => startNest(options, new FastifyAdapter()),
  'Hono 4.6.0, @hono/node-server 1.14.4': (options) => startHono(LeastHono, leastServe, options),
  'Hono 4, @hono/node-server 2': (options) => startHono(Hono, serve, options),
  'serverless-http, Express 5': async (options) => overLambda(serverless(createExpress(express, options))),
  '@codegenie/serverless-express': async (options) => overLambda(codegenie({ app: createExpress(express, options) })),
  '@fastify/aws-lambda': async (options) => overLambda(awsLambdaFastify(addFastifyRoutes(fastify(), options))),
  'node-mocks-http': startMocks,
}
