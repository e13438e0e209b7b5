import { createServer } from 'node:http'
import { listening } from './listening.js'

export async function listenH3(name) {
  return listening(createServer(name === 'h3-1' ? await listenerOfV1() : await listenerOfV2()))
}

async function listenerOfV1() {
  const { createApp, createRouter, eventHandler, setResponseHeader, toNodeListener } = await import('h3-1')
  const handler = (name) =>
    eventHandler((event) => {
      setResponseHeader(event, 'X-Handler', name)
      return name
    })
  const router = createRouter()
  router.post('/login', handler('login'))
  router.get('/users/:id', handler('read'))
  router.delete('/users/:id', handler('remove'))
  return toNodeListener(createApp().use(router))
}

async function listenerOfV2() {
  const { H3 } = await import('h3-2')
  const { toNodeHandler } = await import('h3-2/node')
  const handler = (name) => (event) => {
    event.res.headers.set('X-Handler', name)
    return name
  }
  const app = new H3()
  app.post('/login', handler('login'))
  app.get('/users/:id', handler('read'))
  app.delete('/users/:id', handler('remove'))
  return toNodeHandler(app)
}
