/** Libraries that limit within one process, as their documentation uses them. */
import Bottleneck from 'bottleneck'
import pThrottle from 'p-throttle'
import { RateLimiterMemory } from 'rate-limiter-flexible'
import type { Contender, Throttle } from '../peers.ts'
import { consuming } from './consuming.ts'

export const inMemory: readonly Contender[] = [
  {
    name: 'rate-limiter-flexible',
    make([tier]) {
      if (!tier) throw new Error('no tier')
      return consuming(new RateLimiterMemory({ points: tier.limit, duration: tier.windowMs / 1_000 }))
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
