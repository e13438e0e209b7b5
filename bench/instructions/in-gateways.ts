import { mkdtemp, rm } from 'node:fs/promises'
import { Agent, get } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Bundle, buildBundle } from '../../test/support/build-bundle.ts'
import { startDirectGateway, WORKERD } from '../../test/support/direct-gateway.ts'
import { startRedisServer } from '../../tools/redis-server.ts'
import { BARE_PROXY, LEASED, PLAIN, UNLIMITED, UPSTASH_PLAIN, type Variant } from '../gateway/variants.ts'
import { serviceBindings, startApi, startFront } from '../services.ts'
import type { Counted } from './callgrind.ts'

const TOKEN = 'bench-token'
/** Until V8 has compiled what is hot. */
const WARM_UPS = 5_000
const REQUESTS = 1_000
const CONNECTIONS = 4

export type RequestInstructions = {
  readonly gateway: string
  readonly instructions: number
  /** Of the gateway that does least with the same bundle: its instructions ÷ these. */
  readonly 'own proxy ÷ it': number
}

/** What workerd spends on a request of one hot caller. */
export async function countInGateways(
  underCallgrind: (executable: string) => Promise<Counted>,
): Promise<RequestInstructions[]> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-gateways-'))
  const server = await startRedisServer()
  const upstream = await startApi()
  const front = await startFront(server.port, TOKEN, 0)
  const bindings = serviceBindings({ upstream, front, token: TOKEN })
  const bundles = new Map<string, Bundle>()
  try {
    const counts: { readonly gateway: string; readonly instructions: number }[] = []
    for (const variant of [UNLIMITED, LEASED, PLAIN, BARE_PROXY, UPSTASH_PLAIN]) {
      const built = bundles.get(variant.source) ?? (await buildBundle({ source: variant.source, into: folder }))
      bundles.set(variant.source, built)
      const instructions = await countRequest(variant, built, bindings, underCallgrind)
      counts.push({ gateway: variant.name, instructions: Math.round(instructions) })
    }
    const own = counts[0]?.instructions ?? Number.NaN
    return counts.map((row) => ({ ...row, 'own proxy ÷ it': Math.round((own / row.instructions) * 1_000) / 1_000 }))
  } finally {
    await Promise.all([front.stop(), upstream.stop()])
    await server.stop()
    await rm(folder, { recursive: true })
  }
}

async function countRequest(
  variant: Variant,
  built: Bundle,
  services: Readonly<Record<string, string>>,
  underCallgrind: (executable: string) => Promise<Counted>,
): Promise<number> {
  await using counted = await underCallgrind(WORKERD)
  const gateway = await startDirectGateway({
    bundle: built,
    bindings: { ...services, ...variant.bindings },
    program: counted.file,
  })
  try {
    await request(gateway.url.origin, WARM_UPS)
    const poke = () => request(gateway.url.origin, 1)
    return (await counted.count(gateway.pid, poke, () => request(gateway.url.origin, REQUESTS))) / REQUESTS
  } finally {
    await gateway.stop()
  }
}

/** Sends this many requests, over few connections that are kept. */
async function request(url: string, times: number): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS })
  let left = times
  const send = async () => {
    while (left-- > 0) await requestOnce(url, agent)
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, send))
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
