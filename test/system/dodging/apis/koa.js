import { createServer } from 'node:http'
import Router from '@koa/router'
import Koa from 'koa'
import { listening } from './listening.js'

export function listenKoa() {
  const router = new Router()
  const handler = (name) => (context) => {
    context.set('X-Handler', name)
    context.body = name
  }
  router.post('/login', handler('login'))
  router.get('/users/:id', handler('read'))
  router.delete('/users/:id', handler('remove'))
  const app = new Koa()
  // It logs what clients have spoilt.
  app.silent = true
  app.use(router.routes()).use(router.allowedMethods())
  return listening(createServer(app.callback()))
}
