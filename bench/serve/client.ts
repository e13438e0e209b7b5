/**
 * Asks `sluice serve` for decisions, in a process of its own, and prints how it was answered:
 * `node client.ts grpc <host and port>`, or `node client.ts http <url> <token>`.
 */
import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { json } from 'node:stream/consumers'
import { descriptor, RateLimitClient } from '../../test/support/rate-limit-client.ts'
import { CALLERS, LANES, POLICY, SECONDS, type ServeLoad, WARM_UP_S } from './load.ts'

type Ask = (caller: string) => Promise<boolean>

const CLIENTS: Readonly<Record<string, (address: string, token: string) => Ask>> = {
  grpc(address) {
    const client = new RateLimitClient(address)
    return async (caller) => (await client.ask(POLICY, [descriptor([POLICY, caller])])).overallCode === 'OK'
  },
  http(url, token) {
    const agent = new Agent({ keepAlive: true, maxSockets: LANES })
    const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' }
    return async (caller) => {
      const sent = request(`${url}/_sluice/decide`, { method: 'POST', agent, headers })
      sent.end(JSON.stringify({ policy: POLICY, identity: [POLICY, caller] }))
      const [response] = await once(sent, 'response')
      return ((await json(response)) as { granted: boolean }).granted
    }
  },
}

const [kind = '', address = '', token = ''] = process.argv.slice(2)
const ask = CLIENTS[kind]?.(address, token)
if (!ask) throw new Error(`no client is called ${kind}`)
const waitsMs: number[] = []
let decisions = 0
const startMs = performance.now() + WARM_UP_S * 1_000
const endMs = startMs + SECONDS * 1_000

async function askOn(ask: Ask): Promise<void> {
  for (;;) {
    const sentMs = performance.now()
    if (sentMs >= endMs) return
    if (!(await ask(`${Math.floor(Math.random() * CALLERS)}`))) throw new Error('a decision was refused')
    decisions++
    if (sentMs >= startMs) waitsMs.push(performance.now() - sentMs)
  }
}

await Promise.all(Array.from({ length: LANES }, () => askOn(ask)))
waitsMs.sort((a, b) => a - b)
const load: ServeLoad = {
  decisions,
  perSecond: waitsMs.length / SECONDS,
  p50Ms: waitsMs[Math.floor(waitsMs.length * 0.5)] ?? Number.NaN,
  p99Ms: waitsMs[Math.floor(waitsMs.length * 0.99)] ?? Number.NaN,
}
console.log(JSON.stringify(load))
process.exit()
