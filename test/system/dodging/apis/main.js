/**
 * Serves one framework's API on a free port of 127.0.0.1 and prints the port: `node main.js express5`. Each API has the
 * routes of `../routes.ts`, written as the framework's own documentation writes them, and says which of them served a
 * request in the field X-Handler.
 */
import { listenExpress } from './express.js'
import { listenFastify } from './fastify.js'
import { listenH3 } from './h3.js'
import { listenHono } from './hono.js'
import { listenKoa } from './koa.js'

const APIS = {
  express4: () => listenExpress('express4'),
  express5: () => listenExpress('express5'),
  fastify4: () => listenFastify('fastify4'),
  fastify5: () => listenFastify('fastify5'),
  h3v1: () => listenH3('h3-1'),
  h3v2: () => listenH3('h3-2'),
  hono: listenHono,
  koa: listenKoa,
}

const server = await APIS[process.argv[2]]()
// Connections are the gateway's to end.
server.keepAliveTimeout = 0
console.log(server.address().port)
// Some tell of each path that they cannot decode.
console.warn = console.error = () => {}
// The end of the test is that of its input.
process.stdin.on('end', () => process.exit()).resume()
