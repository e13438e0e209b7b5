import { Elysia } from 'elysia'
import { limit } from 'sluice/fetch'
import { answer } from '../answer.js'
import { options } from '../options.js'

const app = new Elysia().get('*', ({ request }) => answer(request))
const fetch = limit((request) => app.handle(request), options)
Bun.serve({ hostname: '127.0.0.1', port: process.env.PORT, idleTimeout: 0, fetch })
