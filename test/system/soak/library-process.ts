/**
 * A process that takes from limiters of the library, over memory and over Redis, for ever new callers and for some that
 * stay: `library-process.ts <port> <prefix>`. It writes what it holds as a line of JSON whenever it reads one.
 */
import { createInterface } from 'node:readline'
import { createClient } from '@redis/client'
import { createLimiter, redisStore } from '../../../src/index.ts'

const TAKES_A_TICK = 4
const TICK_MS = 20
const STAYING = 20

const [port = '', prefix = ''] = process.argv.slice(2)
const client = createClient({ socket: { host: '127.0.0.1', port: Number(port) } })
client.on('error', () => {})
await client.connect()
const shared = createLimiter({ limits: '20/2s', keyPrefix: prefix, store: redisStore(client) })
const own = createLimiter({ limits: '20/2s' })

let [index, failed] = [0, 0]
setInterval(() => {
  for (let i = 0; i < TAKES_A_TICK; i++) {
    const caller = index++ % 5 === 0 ? `staying-${index % STAYING}` : crypto.randomUUID()
    for (const limiter of [shared, own]) limiter.take(caller).catch(() => failed++)
  }
}, TICK_MS)

for await (const _ of createInterface(process.stdin)) {
  globalThis.gc?.()
  const heapMiB = process.memoryUsage().heapUsed / 2 ** 20
  const timers = process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
  console.log(JSON.stringify({ heapMiB, timers, takes: index, failed }))
}
