/** Middleware that is called without a connection, on workerd and on Node: for Hono, and for any handler of `fetch`. */
import { type Context, Hono, type HonoRequest } from 'hono'
import { limit, readRateLimit } from '../../../src/fetch.ts'
import { type RateLimitVariables, sluice } from '../../../src/hono.ts'
import {
  type Adapter,
  type AppRequest,
  adaptOptions,
  findRoute,
  type Options,
  type Routes,
  type Sent,
} from './adapter.ts'

export const WEB_ADAPTERS: readonly Adapter[] = [
  {
    name: 'sluice() of Hono',
    make: (options) => sluice(options as never),
    async serve(layers, routes) {
      const app = createHonoApp(layers, routes)
      // Hono leaves it to its server to answer what is thrown and is no `Error`.
      return async (sent) => Promise.resolve(app.fetch(toRequest(sent))).catch(toFailure)
    },
  },
  {
    name: 'limit() of fetch',
    make: (options) => limit(() => new Response(), options as never),
    async serve(layers, routes) {
      let handle = async (request: Request) => {
        const read = readRequest(request)
        const answer = findRoute(routes, request.method, read.path)
        return answer?.(read, readRateLimit(request)) ?? new Response(null, { status: 404 })
      }
      for (const { onLimited, ...options } of layers.toReversed()) {
        handle = limit(handle, {
          ...adaptOptions(options, readRequest),
          onLimited: onLimited && ((_, rateLimit) => onLimited(rateLimit)),
        })
      }
      return (sent) => handle(toRequest(sent)).catch(toFailure)
    },
  },
]

export function createHonoApp(layers: readonly Options[], routes: Routes): Hono<{ Variables: RateLimitVariables }> {
  const app = new Hono<{ Variables: RateLimitVariables }>()
  for (const { onLimited, ...options } of layers) {
    const shared = adaptOptions(options, ({ req }: Context) => readHonoRequest(req))
    app.use(sluice({ ...shared, onLimited: onLimited && ((_, rateLimit) => onLimited(rateLimit)) }))
  }
  for (const [route, handler] of Object.entries(routes)) {
    const [method = '', path = '*'] = route.split(' ')
    const answer = (c: Context) => handler(readHonoRequest(c.req), c.get('rateLimit'))
    if (route === '*') app.all(path, answer)
    else app.on(method, path, answer)
  }
  app.onError((error, c) => c.text(`${error}`, 500))
  return app
}

function readHonoRequest(request: HonoRequest): AppRequest {
  const isForm = /form/.test(request.header('Content-Type') ?? '')
  return {
    ...readRequest(request.raw),
    text: async () =>
      isForm ? `${new URLSearchParams((await request.parseBody()) as Record<string, string>)}` : request.text(),
  }
}

function readRequest(request: Request): AppRequest {
  const { pathname, search } = new URL(request.url)
  return { path: pathname + search, headers: request.headers, text: () => request.text() }
}

/** Makes what a server makes of a request: its path is canonical. */
function toRequest({ method = 'GET', path = '/', headers = {}, body, hasUnknownLength }: Sent): Request {
  const fields = Object.entries(headers).flatMap(([name, values]) => [values].flat().map((value) => [name, value]))
  return new Request(new URL(path, 'https://app.example'), {
    method,
    headers: new Headers(fields as [string, string][]),
    ...(body !== undefined && { body: hasUnknownLength ? new Response(body).body : body, duplex: 'half' }),
  } as RequestInit) as Request
}

function toFailure(error: unknown): Response {
  return new Response(`${error}`, { status: 500 })
}
