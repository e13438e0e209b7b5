/** What a site must come to, each within a time. */
import { setTimeout as wait } from 'node:timers/promises'
import { PLANTED } from './callers.ts'
import { countSlots } from './charges.ts'
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
  const untilMs = performance.now() + PATIENCE_MS
  const waiting = points.map(async ({ url }) => {
    for (;;) {
      const headers = { authorization: `Bearer ${PLANTED.caller}-${crypto.randomUUID()}` }
      const response = await fetch(new URL('/local', url), { headers })
      await response.arrayBuffer()
      if (response.status === 200 && !response.headers.has('sluice-degraded')) return
      if (performance.now() > untilMs) throw new Error('a point of presence does not return to the store')
      await wait(50)
    }
  })
  await Promise.all(waiting)
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
  const untilMs = performance.now() + PATIENCE_MS
  const opening = points.map(async ({ url }) => {
    for (;;) {
      const response = await fetch(new URL('/_sluice/health', url))
      const { store } = (await response.json()) as { store: { circuit: string } }
      if (store.circuit !== 'closed') return
      if (performance.now() > untilMs) throw new Error('the circuit of a point of presence does not open')
      await wait(10)
    }
  })
  await Promise.all(opening)
}

/** Health calls the store once a second at most: a state that was just left may be shown for so long. */
export async function checkHealth({ points }: Site, length: Length, expected: 'ok' | 'degraded'): Promise<string[]> {
  const untilMs = performance.now() + findRecoveryMs(length)
  const states = points.map(async ({ url }, point) => {
    for (;;) {
      const response = await fetch(new URL('/_sluice/health', url))
      const text = await response.text()
      const { status } = JSON.parse(text) as { status: string }
      if (status === expected) return []
      if (performance.now() > untilMs) return [`point ${point}: health says ${text}, not ${expected}`]
      await wait(50)
    }
  })
  return (await Promise.all(states)).flat()
}

/** Slots are given back as soon as the store is there, whatever became of the calls that took them. */
export async function checkSlots(site: Site, length: Length): Promise<string[]> {
  const withinMs = findRecoveryMs(length)
  const untilMs = performance.now() + withinMs
  for (;;) {
    const taken = await countSlots(site, 'held')
    if (taken === 0) return []
    if (performance.now() > untilMs) return [`${taken} slots still taken after ${withinMs} ms`]
    await wait(20)
  }
}
