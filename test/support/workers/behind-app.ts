/** A Worker with routes of its own, which hands everything else to the gateway. */
import { env } from 'cloudflare:workers'
import { Hono } from 'hono'
import { createGateway } from '../../../src/gateway.ts'

const gateway = await createGateway({ ...env })

export default new Hono()
  .get('/own', (c) => c.text('the app itself'))
  .all('*', (c) => gateway.fetch(c.req.raw, c.env, c.executionCtx))
