import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import { sluice } from 'sluice/hono'
import { answerEnd, answerSlowly } from '../answer.js'
import { options } from '../options.js'
import { port } from './answer-on-node.js'

const app = new Hono()
app.use(sluice(options))
app.get('/slow', answerSlowly)
app.get('/end', answerEnd)
app.get('*', (c) => c.json(c.get('rateLimit')))
serve({ fetch: app.fetch, port, hostname: '127.0.0.1' })
