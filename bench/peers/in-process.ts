/** Libraries that limit within one process, as their documentation uses them. */
import Bottleneck from 'bottleneck'
import pThrottle from 'p-throttle'
import { RateLimiterMemory } from 'rate-limiter-flexible'
import { type Contender, FLEXIBLE, type Throttle } from '../peers.ts'
import { consumeFrom } from './consume-from.ts'

export const inMemory: readonly Contender[] = [
  {
    name: FLEXIBLE,
    make([limit]) {
      if (!limit) throw new Error('no limit')
      return consumeFrom(new RateLimiterMemory({ points: limit.limit, duration: limit.windowMs / 1_000 }))
    },
  },
]

export const throttles: readonly Throttle[] = [
  {
    name: 'p-throttle',
    make: ({ limit, windowMs }) => pThrottle({ limit, interval: windowMs })(async (task: () => unknown) => task()),
  },
  {
    name: 'p-throttle, strict',
    make: ({ limit, windowMs }) =>
      pThrottle({ limit, interval: windowMs, strict: true })(async (task: () => unknown) => task()),
  },
  {
    name: 'bottleneck',
    make({ limit, windowMs }) {
      const refill = { reservoirRefreshInterval: windowMs, reservoirRefreshAmount: limit }
      const limiter = new Bottleneck({ reservoir: limit, ...refill })
      return (task) => limiter.schedule(async () => task())
    },
  },
]
