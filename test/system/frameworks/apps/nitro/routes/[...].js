import { defineHandler } from 'nitro/h3'
import { limit } from 'sluice/fetch'
import { answer } from '../../answer.js'
import { options } from '../../options.js'

const limited = limit(answer, { ...options, trustProxy: (request) => request.ip })
export default defineHandler((event) => limited(event.req, event))
