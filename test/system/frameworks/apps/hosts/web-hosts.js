/** Hosts whose handlers take a `Request`, on Bun and Deno. */
import { limit } from 'sluice/fetch'
import { answerOnWeb, handlers } from './answer.js'
import { overHttp } from './promises.js'

const CORS = 'Access-Control-Allow-Origin'

/** The app's own headers are added around the middleware. */
function createHandler(options, handle = answerOnWeb) {
  const limited = limit(handle, { ...options, trustProxy: () => '192.0.2.1' })
  // Deno gives a handler as many arguments as it names.
  return async (request, info) => {
    const response = await limited(request, info).catch(() => new Response('failed', { status: 500 }))
    response.headers.set(CORS, '*')
    return response
  }
}

function startBun(fetch) {
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 0,
    fetch,
    error: () => new Response(null, { status: 500 }),
  })
  // Handlers of `fetch` get a Request alone: there is no place for a user.
  return { ...overHttp(server.port, handlers), isWeb: true, isAnonymous: true, close: () => server.stop(true) }
}

async function startElysia(options) {
  const { Elysia } = await import('elysia')
  const app = new Elysia().onError(({ status }) => status(500)).all('*', ({ request }) => answerOnWeb(request))
  return startBun(createHandler(options, (request) => app.handle(request)))
}

async function startDeno(options) {
  let port
  const server = Deno.serve(
    {
      hostname: '127.0.0.1',
      port: 0,
      onListen: (address) => ({ port } = address),
      onError: () => new Response(null, { status: 500 }),
    },
    createHandler(options),
  )
  return { ...overHttp(port, handlers), isWeb: true, isAnonymous: true, close: () => void server.shutdown() }
}

export const WEB_HOSTS = globalThis.Bun
  ? { 'Bun.serve': async (options) => startBun(createHandler(options)), 'Elysia 1 on Bun': startElysia }
  : { 'Deno.serve': startDeno }
