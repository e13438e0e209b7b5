import { setTimeout as wait } from 'node:timers/promises'
import { FAULTS } from '../../../tools/faults.ts'
import { type RestFront, startRestFront } from '../../../tools/rest-front.ts'
import { PLANTED } from './callers.ts'
import type { Scenario } from './fault.ts'
import { findLibfaketime, shiftedClock } from './find-libfaketime.ts'
import type { Site } from './site.ts'
import { type StoreFault, storeFault } from './store-fault.ts'

/** How far the replica's clock is behind, seconds. */
const BEHIND_S = 5
/** For so long, a replica that lags has missed all. */
const LAG_MS = 300

/** Redis itself, broken in earnest. */
export const REDIS_FAULTS: readonly Scenario[] = [
  storeFault({
    fault: 'Redis: killed (SIGKILL), restarted empty',
    decides: 'alone',
    losesState: true,
    during: ({ name, during }) => (name === 'long' ? { ...during, ms: 10_000 } : during),
    ratePerS: ({ name, ratePerS }) => (name === 'long' ? 500 : ratePerS),
    begin: ({ redis }) => redis.kill(),
    end: ({ redis }) => redis.restart(),
  }),
  storeFault({
    fault: 'Redis: stopped (SIGSTOP)',
    decides: 'alone',
    isOfTime: true,
    begin: ({ redis }) => redis.freeze(),
    end: ({ redis }) => redis.thaw(),
  }),
  storeFault({
    fault: 'Redis: maxmemory reached (noeviction)',
    decides: 'alone',
    async begin({ redis }) {
      await redis.client.configSet({ 'maxmemory-policy': 'noeviction', maxmemory: '1' })
    },
    async end({ redis }) {
      await redis.client.configSet('maxmemory', '0')
    },
  }),
  storeFault({
    fault: 'Redis: SCRIPT FLUSH',
    decides: 'shared',
    async begin({ redis }) {
      await redis.client.scriptFlush()
    },
    end() {},
  }),
  storeFault({
    fault: 'Redis: FLUSHALL',
    decides: 'shared',
    losesState: true,
    async begin({ redis }) {
      await redis.client.flushAll()
    },
    end() {},
  }),
  // Planned: the replica has all that the primary had.
  failover({
    fault: `Redis: failover to a replica ${BEHIND_S} s behind`,
    async prepare({ redis }) {
      await redis.replicate(shiftedClock(await findLibfaketime(), -BEHIND_S))
      const [atLeastS, atMostS] = await redis.replicaOffsetS()
      if (atLeastS > -BEHIND_S || atMostS < -BEHIND_S) {
        throw new Error(`the replica's clock is ahead by ${atLeastS} to ${atMostS} s, not by ${-BEHIND_S} s`)
      }
    },
    begin({ front }) {
      front.inject(FAULTS['status 503'])
    },
    promote: ({ redis }) => redis.failOver(),
  }),
  // As it happens when a primary dies: the replica lacks what was charged last, which may be admitted again.
  failover({
    fault: 'Redis: killed (SIGKILL), a replica that lags is promoted',
    losesState: true,
    isLikeAnother: true,
    prepare: ({ redis }) => redis.replicate({}),
    async begin({ redis }) {
      await redis.cutOffReplica()
      await wait(LAG_MS)
      await redis.kill()
    },
    promote: ({ redis }) => redis.failOver({ isLagging: true }),
  }),
]

type Failover = Omit<StoreFault, 'decides' | 'end' | 'restore'> & {
  /** @returns the port of the replica, which is the primary now */
  promote(site: Site): Promise<number>
}

function failover({ promote, ...fault }: Failover): Scenario {
  let rest: RestFront | undefined
  return storeFault({
    ...fault,
    decides: 'alone',
    async end(site) {
      rest = await startRestFront({ redisPort: await promote(site), token: PLANTED.restToken })
      site.front.forwardTo(rest.url)
      site.front.inject(undefined)
    },
    async restore({ front, redis, rest: first }) {
      await redis.restart()
      front.forwardTo(first.url)
      await rest?.stop()
    },
  })
}
