/**
 * Where the time of a request goes in a gateway: V8's profile of the bare proxy and of Sluice's own, which exempts all
 * requests, next to that of Sluice with leases, one hot caller, 20 ms to Redis. About 30 seconds.
 *
 *     npm run bench:profile
 */
import { findFreePort } from '../tools/free-port.ts'
import { profile } from './gateway/profiler.ts'
import { BARE_PROXY, LEASED, UNLIMITED, type Variant } from './gateway/variants.ts'
import { load } from './gateway/wrk.ts'
import { describeMachine } from './results.ts'
import { openSite } from './site.ts'

const LATENCY_MS = 20
const WARM_UP_S = 2
const SECONDS = 6
const SHOWN = 30

await using site = await openSite()
const { date, processors } = await describeMachine(site.redis)
console.log(`${date}, ${processors}; µs of a request in the code of each function`)
const variants = [BARE_PROXY, UNLIMITED, LEASED]
const profiles: ReadonlyMap<string, number>[] = []
for (const variant of variants) profiles.push(await measure(variant))
const functions = new Set(profiles.flatMap((times) => [...times.keys()]))
functions.delete('(idle)')
const rows = [...functions].map((name) => toRow(name, (times) => times.get(name) ?? 0))
const all = toRow('all', (times) => [...functions].reduce((sum, name) => sum + (times.get(name) ?? 0), 0))
console.table([all, ...rows.toSorted((a, b) => Math.abs(Number(b.more)) - Math.abs(Number(a.more))).slice(0, SHOWN)])

function toRow(name: string, read: (times: ReadonlyMap<string, number>) => number) {
  const us = profiles.map((times) => Math.round(read(times) * 10) / 10)
  const named = Object.fromEntries(variants.map((variant, at) => [variant.name, us[at]]))
  return { function: name, ...named, more: Math.round(((us.at(-1) ?? 0) - (us[0] ?? 0)) * 10) / 10 }
}

/** Microseconds of a request in each function. */
async function measure(variant: Variant): Promise<ReadonlyMap<string, number>> {
  const port = await findFreePort()
  await using gateway = await site.startGateway(variant, {
    latencyMs: LATENCY_MS,
    build: { minify: false },
    args: [`--inspector-addr=127.0.0.1:${port}`],
  })
  const target = { url: gateway.url.origin, name: 'profile', callers: 1 }
  await load({ ...target, seconds: WARM_UP_S })
  // Begins and ends within the load.
  const durationMs = (SECONDS - 1) * 1_000
  const [{ requestsPerSecond }, times] = await Promise.all([
    load({ ...target, seconds: SECONDS }),
    profile(port, durationMs),
  ])
  const requests = (requestsPerSecond * durationMs) / 1_000
  return new Map([...times].map(([name, us]) => [name, us / requests]))
}
