/**
 * Instructions that workerd spends on a request of one hot caller, which no other load on the machine changes: valgrind
 * counts them. About ten minutes. `npm run bench` counts those of Redis and of a start.
 *
 *     npm run bench:instructions
 */
import { Agent, get } from 'node:http'
import { WORKERD } from '../../test/support/direct-gateway.ts'
import { BARE_PROXY, LEASED, PLAIN, UNLIMITED, UPSTASH_PLAIN, type Variant } from '../gateway/variants.ts'
import { installPeers } from '../peers.ts'
import { formatRows } from '../report/markdown.ts'
import { openSite, type Site } from '../site.ts'
import { requireCallgrind, type UnderCallgrind } from './callgrind.ts'

/** After this warm-up, V8 has compiled the hot code. */
const WARM_UPS = 5_000
const REQUESTS = 1_000
const CONNECTIONS = 4

const underCallgrind = await requireCallgrind()
installPeers()
await using site = await openSite()
const counts: { readonly gateway: string; readonly instructions: number }[] = []
for (const variant of [UNLIMITED, LEASED, PLAIN, BARE_PROXY, UPSTASH_PLAIN]) {
  const instructions = await countRequest(variant, site, underCallgrind)
  counts.push({ gateway: variant.name, instructions: Math.round(instructions) })
}
console.log(formatRows(counts))

async function countRequest(variant: Variant, site: Site, underCallgrind: UnderCallgrind): Promise<number> {
  await using counted = await underCallgrind(WORKERD)
  await using gateway = await site.startGateway(variant, { program: counted.file })
  const { pid, url } = gateway
  await request(url.origin, WARM_UPS)
  const poke = () => request(url.origin, 1)
  return (await counted.count(pid, poke, () => request(url.origin, REQUESTS))) / REQUESTS
}

/** Sends this many requests, over few connections that are kept. */
async function request(url: string, times: number): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS })
  let left = times
  const sendAll = async () => {
    while (left-- > 0) await requestOnce(url, agent)
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, sendAll))
  agent.destroy()
}

function requestOnce(url: string, agent: Agent): Promise<void> {
  return new Promise((resolve, reject) => {
    const headers = { Authorization: 'Bearer counted' }
    const sent = get(`${url}/v1/things?page=2`, { agent, headers }, (response) => {
      if (response.statusCode !== 200) reject(new Error(`answered ${response.statusCode}`))
      response.resume()
      response.on('end', resolve)
    })
    sent.on('error', reject)
  })
}
