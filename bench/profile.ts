/**
 * Where the time of a request goes in a gateway: V8's profile of the bare proxy and of Sluice's own, which exempts all
 * requests, beside that of Sluice with leases, one hot caller, 20 ms to Redis. About 30 seconds.
 *
 *     npm run bench:profile
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Bundle, buildBundle } from '../test/support/build-bundle.ts'
import { startDirectGateway } from '../test/support/direct-gateway.ts'
import { connectRedis } from '../test/support/redis-client.ts'
import { freePort } from '../tools/free-port.ts'
import { startRedisServer } from '../tools/redis-server.ts'
import { HOT } from './gateway/measure.ts'
import { profile } from './gateway/profiler.ts'
import { COMPARED, NAMES } from './gateway/variants.ts'
import { load } from './gateway/wrk.ts'
import { describeMachine } from './results.ts'
import { serviceBindings, startApi, startFront } from './services.ts'

const TOKEN = 'bench-token'
const REST_LATENCY_MS = 20
const WARM_UP_S = 2
const SECONDS = 6
const SHOWN = 30

const bundles = new Map<string, Bundle>()
const folder = await mkdtemp(join(tmpdir(), 'sluice-profile-'))
const server = await startRedisServer()
const redis = await connectRedis(server.port)
const upstream = await startApi()
const front = await startFront(server.port, TOKEN, REST_LATENCY_MS)
try {
  const { date, processors } = await describeMachine(redis)
  console.log(`${date}, ${processors}; µs of a request in each function itself`)
  const [bare, own, leases] = [await measure(NAMES.bare), await measure(NAMES.unlimited), await measure(NAMES.leases)]
  const names = [...new Set([...leases.keys(), ...own.keys(), ...bare.keys()])].filter((name) => name !== '(idle)')
  const total = (times: ReadonlyMap<string, number>) => names.reduce((sum, name) => sum + (times.get(name) ?? 0), 0)
  const row = (name: string, ofBare: number, ofOwn: number, ofLeases: number) => ({
    function: name,
    [NAMES.bare]: round(ofBare),
    [NAMES.unlimited]: round(ofOwn),
    [NAMES.leases]: round(ofLeases),
    more: round(ofLeases - ofBare),
  })
  const rows = names.map((name) => row(name, bare.get(name) ?? 0, own.get(name) ?? 0, leases.get(name) ?? 0))
  const most = rows.toSorted((a, b) => Math.abs(Number(b.more)) - Math.abs(Number(a.more))).slice(0, SHOWN)
  console.table([row('all', total(bare), total(own), total(leases)), ...most])
} finally {
  await redis.close()
  await Promise.all([upstream.stop(), front.stop()])
  await server.stop()
  await rm(folder, { recursive: true })
}

/** Microseconds of a request in each function. */
async function measure(name: string): Promise<ReadonlyMap<string, number>> {
  const variant = COMPARED.find((each) => each.name === name)
  if (!variant) throw new Error(`no variant ${name}`)
  const port = await freePort()
  const gateway = await startDirectGateway({
    bundle: await bundleOf(variant.source),
    bindings: { ...serviceBindings({ upstream, front, token: TOKEN }), ...variant.bindings },
    args: [`--inspector-addr=127.0.0.1:${port}`],
  })
  try {
    const target = { url: gateway.url.origin, name: 'profile', callers: HOT }
    await load({ ...target, seconds: WARM_UP_S })
    // Begins and ends within the load.
    const durationMs = (SECONDS - 1) * 1_000
    const [{ requestsPerSecond }, times] = await Promise.all([
      load({ ...target, seconds: SECONDS }),
      profile(port, durationMs),
    ])
    const requests = (requestsPerSecond * durationMs) / 1_000
    return new Map([...times].map(([of, us]) => [of, us / requests]))
  } finally {
    await gateway.stop()
  }
}

async function bundleOf(source: string): Promise<Bundle> {
  const made = bundles.get(source) ?? (await buildBundle({ source, into: folder, minify: false }))
  bundles.set(source, made)
  return made
}

function round(us: number): number {
  return Math.round(us * 10) / 10
}
