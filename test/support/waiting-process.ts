/** A process that takes all it is told to, as soon as it may: `waiting-process.ts <port> <prefix> <limits> <takes>`. */
import { createClient } from '@redis/client'
import { createLimiter, redisStore } from '../../src/index.ts'

const [port = '', prefix = '', limits = '', takes = ''] = process.argv.slice(2)
const client = await createClient({ socket: { host: '127.0.0.1', port: Number(port) } }).connect()
const limiter = createLimiter({ limits, keyPrefix: prefix, store: redisStore(client, { timeoutMs: 60_000 }) })

const waiting = Array.from({ length: Number(takes) }, () => limiter.waitFor('partner'))
const decisions = await Promise.all(waiting)
console.log(JSON.stringify(decisions.map(({ granted, decidedAtMs }) => (granted ? decidedAtMs : 'refused'))))
await client.close()
