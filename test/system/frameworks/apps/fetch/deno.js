import { limit } from 'sluice/fetch'
import { answer } from '../answer.js'
import { options } from '../options.js'

Deno.serve({ hostname: '127.0.0.1', port: Number(Deno.env.get('PORT')) }, limit(answer, options))
