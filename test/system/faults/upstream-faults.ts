import { setTimeout as wait } from 'node:timers/promises'
import { pollUntil } from '../kit/poll.ts'
import { PATIENCE_MS } from './check-site.ts'
import type { Exchange } from './exchange.ts'
import { exchangeFault } from './exchange-fault.ts'
import type { Scenario } from './fault.ts'
import type { Site } from './site.ts'
import { HUGE_BYTES } from './upstream.ts'

/** How far beyond its timeout a 504 may come, ms. */
const SLACK_MS = 1_500
/** Of an endless body: several chunks of it. */
const ENDLESS_BYTES = 100
/** Bodies of 100 MiB at once: were they kept in memory, they would show. */
const HUGE_BODIES = { short: 2, long: 4 }
const MAX_GROWTH_MIB = 100

/** The API behind the gateway on its worst day, and clients that do not wait for it. */
export const UPSTREAM_FAULTS: readonly Scenario[] = [
  exchangeFault({
    fault: 'upstream: hangs',
    promised: '504 after UPSTREAM_TIMEOUT_MS; slots given back',
    path: '/up/hang',
    async check(exchange, _site, { isTimed, upstreamTimeoutMs }) {
      const { status, beganMs } = await exchange.read()
      if (status !== 504) return `${status}, not 504`
      const isInTime = beganMs >= upstreamTimeoutMs - 50 && (!isTimed || beganMs <= upstreamTimeoutMs + SLACK_MS)
      return isInTime ? undefined : `504 outside of ${upstreamTimeoutMs} to ${upstreamTimeoutMs + SLACK_MS} ms`
    },
  }),
  exchangeFault({
    fault: 'upstream: resets the connection',
    promised: '502; slots given back',
    path: '/up/reset',
    async check(exchange) {
      const { status } = await exchange.read()
      return status === 502 ? undefined : `${status}, not 502`
    },
  }),
  exchangeFault({
    fault: 'upstream: resets in the middle of its body',
    promised: 'the body breaks off and does not seem whole; slots given back',
    path: '/up/reset-body',
    async check(exchange) {
      const { status, isWhole } = await exchange.read()
      return status === 200 && !isWhole ? undefined : `${status}, ${isWhole ? 'whole' : 'broken off'}`
    },
  }),
  exchangeFault({
    fault: 'upstream: sends a body of 100 MiB',
    promised: `all of it; a process grows by ${MAX_GROWTH_MIB} MiB at most; slots given back`,
    path: '/up/huge',
    crowd: ({ name }) => HUGE_BODIES[name],
    maxGrowthMiB: MAX_GROWTH_MIB,
    async check(exchange) {
      const response = await exchange.response
      // Read by nobody for a while: it must wait at the upstream, not in the gateway.
      await wait(300)
      const { bytes } = await exchange.read()
      return response.statusCode === 200 && bytes === HUGE_BYTES ? undefined : `${response.statusCode}, ${bytes} bytes`
    },
  }),
  exchangeFault({
    fault: 'upstream: never ends its body',
    promised: 'passed on as it comes; once the client has gone, the upstream is let go, slots given back',
    path: '/up/endless',
    async check(exchange) {
      const { status, bytes } = await exchange.readAndLeave(ENDLESS_BYTES)
      return status === 200 && bytes > 0 ? undefined : `${status}, ${bytes} bytes`
    },
  }),
  exchangeFault({
    fault: 'client: leaves while the API is at work',
    promised: 'slots given back; others unharmed',
    path: '/up/slow',
    async check(exchange, site) {
      await waitForArrival(exchange, site)
      exchange.leave()
      return undefined
    },
  }),
  exchangeFault({
    fault: 'client: leaves in the middle of its request',
    promised: 'the upstream is let go; slots given back; others unharmed',
    path: '/up/upload',
    method: 'POST',
    async check(exchange, site) {
      exchange.request.write('half of ')
      await waitForArrival(exchange, site)
      exchange.leave()
      return undefined
    },
  }),
  exchangeFault({
    fault: 'client: leaves in the middle of the answer',
    promised: 'the upstream is let go; slots given back; others unharmed',
    path: '/up/huge',
    crowd: ({ name, crowd }) => (name === 'long' ? crowd / 4 : crowd),
    async check(exchange) {
      const { status, bytes } = await exchange.readAndLeave(1)
      return status === 200 && bytes < HUGE_BYTES ? undefined : `${status}, ${bytes} bytes`
    },
  }),
]

/** Resolves when the request has come to the upstream. */
async function waitForArrival({ id }: Exchange, { upstream }: Site): Promise<void> {
  const arrivedMs = await pollUntil({ withinMs: PATIENCE_MS, everyMs: 5 }, () => upstream.arrivedMs(id))
  if (arrivedMs === undefined) throw new Error('the request never came to the upstream')
}
