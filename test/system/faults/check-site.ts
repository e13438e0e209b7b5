/** What a site must come to, each within a time. */
import { setTimeout as wait } from 'node:timers/promises'
import { pollUntil } from '../kit/poll.ts'
import { PLANTED } from './callers.ts'
import { listTakenSlots } from './charges.ts'
import type { Length } from './fault.ts'
import type { Site } from './site.ts'
import type { Sample } from './traffic.ts'

/** Promised time from the store's return to shared limits, ms. */
export const RECOVERY_MS = 2_000

/** Beyond any time that a busy machine takes. */
export const PATIENCE_MS = 60_000

/** Time for what is promised within RECOVERY_MS. */
const findRecoveryMs = ({ isTimed }: Length) => (isTimed ? RECOVERY_MS : PATIENCE_MS)

/** Resolves when every point has a store again, as it had before the first fault. */
export async function waitUntilShared({ points }: Site): Promise<void> {
  const waiting = points.map(async ({ url }) => {
    const isShared = await pollUntil({ withinMs: PATIENCE_MS, everyMs: 50 }, async () => {
      const headers = { authorization: `Bearer ${PLANTED.caller}-${crypto.randomUUID()}` }
      const response = await fetch(new URL('/local', url), { headers })
      await response.arrayBuffer()
      return response.status === 200 && !response.headers.has('sluice-degraded')
    })
    if (!isShared) throw new Error('a point of presence does not return to the store')
  })
  await Promise.all(waiting)
}

async function readHealth(url: URL) {
  const response = await fetch(new URL('/_sluice/health', url))
  return (await response.json()) as { status: string; store: { circuit: string } }
}

/** Resolves when each point has admitted a request through the store that was sent since then, ms it took. */
export async function measureRecovery(
  { points }: Site,
  length: Length,
  samples: readonly Sample[],
  sinceMs: number,
): Promise<number> {
  const first = (point: number) =>
    samples.find(
      (sample) =>
        sample.point === point && sample.startMs >= sinceMs && sample.status === 200 && sample.degraded === undefined,
    )
  for (;;) {
    const found = points.map((_, point) => first(point))
    const tookMs = performance.now() - sinceMs
    if (found.every((sample) => sample !== undefined)) {
      return Math.max(...found.map((sample) => (sample as Sample).decidedMs - sinceMs))
    }
    if (tookMs > 3 * findRecoveryMs(length)) return tookMs
    await wait(10)
  }
}

/** Resolves when no point's circuit is closed. */
export async function waitUntilOpen({ points }: Site): Promise<void> {
  const opening = points.map(async ({ url }) => {
    const isOpen = await pollUntil({ withinMs: PATIENCE_MS, everyMs: 10 }, async () => {
      return (await readHealth(url)).store.circuit !== 'closed'
    })
    if (!isOpen) throw new Error('the circuit of a point of presence does not open')
  })
  await Promise.all(opening)
}

/** Health calls the store once a second at most: a state that was just left may be shown for so long. */
export async function checkHealth({ points }: Site, length: Length, expected: 'ok' | 'degraded'): Promise<string[]> {
  const times = { withinMs: findRecoveryMs(length), everyMs: 50 }
  const states = points.map(async ({ url }, point) => {
    const health = await pollUntil(
      times,
      () => readHealth(url),
      ({ status }) => status === expected,
    )
    return health.status === expected ? [] : [`point ${point}: health says ${JSON.stringify(health)}, not ${expected}`]
  })
  return (await Promise.all(states)).flat()
}

/** Slots are given back as soon as the store is there, whatever became of the calls that took them. */
export async function checkSlots(site: Site, length: Length): Promise<string[]> {
  return listTakenSlots(site, 'held', { withinMs: findRecoveryMs(length), everyMs: 20 })
}
