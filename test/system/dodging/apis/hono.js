import { createServer } from 'node:http'
import { getRequestListener } from '@hono/node-server'
import { Hono } from 'hono'
import { listening } from './listening.js'

export function listenHono() {
  const app = new Hono()
  const handler = (name) => (c) => c.text(name, 200, { 'X-Handler': name })
  app.post('/login', handler('login'))
  app.get('/users/:id', handler('read'))
  app.delete('/users/:id', handler('remove'))
  return listening(createServer(getRequestListener(app.fetch)))
}
