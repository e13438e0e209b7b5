import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { startGateway } from '../../support/gateway.ts'
import { startUpstream } from '../../support/upstream.ts'

const POINTS = 4
const SECONDS = 3
const RATE = 5
const BURST = 5
/** Many times shorter than a unit takes to come back, and leaves the machine to others. */
const PAUSE_MS = 10

/** By the time since the start; it was decided between these two. */
interface Answer {
  readonly sentMs: number
  readonly atMs: number
  readonly isAdmitted: boolean
}

test('token-bucket: four processes hammering 5/1s get all of it, and never more', async ({ skip }) => {
  const upstream = await startUpstream((_request, response) => response.end())
  const bindings = {
    UPSTREAM_URL: upstream.url,
    KEY_PREFIX: randomUUID(),
    POLICIES: [{ name: 'p', algorithm: 'token-bucket', limits: `${RATE}/1s`, by: 'global' }],
  }
  const points = await Promise.all(Array.from({ length: POINTS }, () => startGateway(bindings)))
  // The first request of an isolate is slow, and must not eat into the time: it is one of a policy's own.
  await Promise.all(points.map(({ url }) => fetch(new URL('/_sluice/health', url))))

  const answers: Answer[] = []
  const startedAt = performance.now()
  const hammer = async (url: URL) => {
    for (let sentMs = 0; sentMs < SECONDS * 1000; ) {
      sentMs = performance.now() - startedAt
      const response = await fetch(url)
      await response.arrayBuffer()
      answers.push({ sentMs, atMs: performance.now() - startedAt, isAdmitted: response.status === 200 })
      await pause(PAUSE_MS)
    }
  }
  await Promise.all(points.map(({ url }) => hammer(url)))

  const admitted = answers.filter(({ isAdmitted }) => isAdmitted)
  // Counted when the answer is there, later than it was decided: what is too many now was too many then.
  for (const [index, { atMs }] of admitted.entries()) {
    expect(index + 1).toBeLessThanOrEqual(BURST + (RATE * atMs) / 1000)
  }
  const refusals = answers.filter(({ isAdmitted }) => !isAdmitted)
  if (refusals.length === 0) skip(`all ${answers.length} requests were so slow that none was refused`)
  const [first, last] = refusalsThroughWhichNothingWasLost(refusals)
  const between = admitted.filter(({ sentMs, atMs }) => atMs >= first.sentMs && sentMs <= last.atMs)
  expect(between.length).toBeGreaterThanOrEqual(Math.floor((RATE * (last.sentMs - first.atMs)) / 1000) - 1)
  await Promise.all(points.map((point) => point.stop()))
  await upstream.stop()
})

/** The first one, and the last one up to which the bucket, in which a refusal finds less than a unit, was never full. */
function refusalsThroughWhichNothingWasLost(refusals: readonly Answer[]): [first: Answer, last: Answer] {
  const fullAfterMs = (1000 * (BURST - 1)) / RATE
  const [first, ...others] = refusals.toSorted((a, b) => a.sentMs - b.sentMs)
  if (!first) return expect.unreachable('nothing was refused')
  let last = first
  for (const refusal of others) {
    if (refusal.atMs - last.sentMs >= fullAfterMs) break
    last = refusal
  }
  return [first, last]
}
