import { limit } from 'sluice/fetch'
import { answer } from '../answer.js'
import { options } from '../options.js'

Bun.serve({ hostname: '127.0.0.1', port: process.env.PORT, idleTimeout: 0, fetch: limit(answer, options) })
