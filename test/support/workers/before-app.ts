/** A Worker that is the API, with the gateway before it. */
import { env } from 'cloudflare:workers'
import { Hono } from 'hono'
import { createGateway } from '../../../src/gateway.ts'

let waited = 0
const app = new Hono<{ Bindings: { GREETING: string } }>()
  .get('/sync', () => new Response('sync'))
  .post('/echo', (c) => new Response(c.req.raw.body))
  .get('/head', (c) => c.text('no body', 200, { 'x-method': c.req.raw.method }))
  .get('/waited', (c) => {
    c.executionCtx.waitUntil(Promise.resolve())
    return c.text(`${++waited} waited`)
  })
  // More than any buffer on its way holds, so that it ends when a client has read it.
  .get('/stream', () => {
    let left = 24
    const pull = (controller: ReadableStreamDefaultController) => {
      controller.enqueue(new Uint8Array(2 ** 20))
      if (--left === 0) controller.close()
    }
    return new Response(new ReadableStream({ pull }))
  })
  .get('/socket', () => {
    const [client, server] = Object.values(new WebSocketPair()) as [WebSocket, WebSocket]
    server.accept()
    server.addEventListener('message', ({ data }) => server.send(`echo ${data}`))
    return new Response(null, { status: 101, webSocket: client })
  })
  .all('*', (c) => {
    const { pathname, search } = new URL(c.req.url)
    return c.text(`${c.req.method} ${pathname}${search} ${c.env.GREETING}`)
  })

export default await createGateway({ ...env }, { upstream: app })
