/**
 * A process that takes from limiters of the library, over memory and over Redis, for ever new callers and for two that
 * press: `library-process.ts <port> <prefix>`. It writes what it holds and has counted as a line of JSON whenever it
 * reads one.
 */
import { createInterface } from 'node:readline'
import { createClient } from '@redis/client'
import { createLimiter, redisStore } from '../../../src/index.ts'
import { Accounts, STORE_TIMEOUT_MS } from './accounts.ts'

const TAKES_A_TICK = 4
const TICK_MS = 20
const LIMIT = { limit: 20, windowMs: 2_000 }

const [port = '', prefix = ''] = process.argv.slice(2)
const client = createClient({ socket: { host: '127.0.0.1', port: Number(port) } })
client.on('error', () => {})
await client.connect()
const limits = `${LIMIT.limit}/${LIMIT.windowMs}ms`
const limiters = {
  'library, Redis': createLimiter({
    limits,
    keyPrefix: prefix,
    store: redisStore(client, { timeoutMs: STORE_TIMEOUT_MS }),
  }),
  'library, memory': createLimiter({ limits }),
}
const accounts = new Accounts(LIMIT)

async function take(name: keyof typeof limiters, caller: string, isPressing: boolean): Promise<void> {
  const sentMs = Date.now()
  const { granted, degraded } = await limiters[name].take(caller)
  if (!isPressing) return
  const answered = degraded !== undefined ? 'doubtful' : granted ? 'admitted' : 'refused'
  accounts.of(`${name}: ${caller}`).add(answered, sentMs, Date.now())
}

let [index, failed] = [0, 0]
setInterval(() => {
  for (let i = 0; i < TAKES_A_TICK; i++) {
    const isPressing = index++ % 5 === 0
    const caller = isPressing ? `pressing-${index % 2}` : crypto.randomUUID()
    for (const name of ['library, Redis', 'library, memory'] as const) {
      take(name, caller, isPressing).catch(() => failed++)
    }
  }
}, TICK_MS)

for await (const _ of createInterface(process.stdin)) {
  globalThis.gc?.()
  const heapMiB = process.memoryUsage().heapUsed / 2 ** 20
  const timers = process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
  const wrong = [...accounts.check(Date.now()), ...(failed > 0 ? [`library: ${failed} takes threw`] : [])]
  console.log(JSON.stringify({ heapMiB, timers, takes: index, wrong, counts: accounts.counts }))
}
