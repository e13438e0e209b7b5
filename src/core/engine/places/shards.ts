/** Makes one store of several databases, each of which counts a share of the identities. */
import type { Decision, DecisionRequest } from '../../model/charge.ts'
import type { Shard, Store } from '../../model/store.ts'
import type { CallContext } from '../../runtime/call-context.ts'
import { hashText } from '../../runtime/hash.ts'
import { groupBy, listNames } from '../../runtime/lists.ts'
import { ChargeTimes } from '../../store/charge-times.ts'
import { decorate } from '../stages/stage.ts'
import { GuardedPlaces, type GuardOptions } from './guarded-place.ts'
import { type Keyed, readTag } from './keys.ts'
import { decideInPlaces } from './split-decision.ts'

/** Shards that join or leave; one without a state counts now, and is to. */
const LAYOUTS = {
  joining: { isNow: false, isNext: true },
  leaving: { isNow: true, isNext: false },
} as const satisfies Readonly<
  Record<NonNullable<Shard['state']>, { readonly isNow: boolean; readonly isNext: boolean }>
>

export const SHARD_STATES = listNames(LAYOUTS)

/** @returns the shards that count now, and those that are to; one of an unknown state is in neither */
export function findLayouts<Any extends Shard>(shards: readonly Any[]) {
  const now = shards.filter(({ state }) => !state || LAYOUTS[state]?.isNow)
  const next = shards.filter(({ state }) => !state || LAYOUTS[state]?.isNext)
  return { now, next, isMoving: shards.some(({ state }) => state !== undefined) }
}

/**
 * Finds the shard of a name by rendezvous hashing (Thaler and Ravishankar, "Using name-based mappings to increase hit
 * rates", 1998): a shard that is added takes its share, and nothing else moves.
 * @param shards at least one
 */
export function findShard<Any extends Shard>(name: string, shards: readonly Any[]): Any {
  const score = (shard: Shard) => hashText(`${shard.name} ${name}`)
  return shards.reduce((best, shard) => (score(shard) > score(best) ? shard : best))
}

/**
 * Counts each identity in one of several databases, so that one call decides all of its limits. Several identities are
 * decided as in a cluster (docs/how-stores-work.md). A database that keeps failing is not called, and the others are.
 * @param shards each layout has at least one
 */
export function withShards(shards: readonly (Shard & { readonly store: Store })[], options: GuardOptions): Store {
  const guarded = new GuardedPlaces(options)
  const placed = shards.map((shard) => ({ ...shard, store: guarded.add(shard.name, shard.store).store }))
  const { now, next, isMoving } = findLayouts(placed)

  const [times, nextTimes] = [new ChargeTimes(), new ChargeTimes()]
  const findNow = (item: Keyed) => findShard(readTag(item), now)
  const findNext = (item: Keyed) => findShard(readTag(item), next)
  const moves = (item: Keyed) => isMoving && findNow(item) !== findNext(item)

  /** @returns the shards that count items now, and those that are to count some of them instead */
  function locate<T extends Keyed>(items: readonly T[]) {
    const located = [...groupBy(items, findNow)].map(([shard, own]) => ({ ...shard, own, isNext: false, times }))
    const moving = isMoving ? [...groupBy(items.filter(moves), findNext)] : []
    return [...located, ...moving.map(([shard, own]) => ({ ...shard, own, isNext: true, times: nextTimes }))]
  }

  function decide(request: DecisionRequest, context?: CallContext): Promise<Decision> {
    const located = locate(request.charges)
    const [only, ...others] = located
    if (only && others.length === 0) return only.store.decide(request, context)
    const places = located.map(({ own, ...place }) => ({ ...place, charges: own }))
    return decideInPlaces(request, places, options.timeoutMs, context)
  }

  async function callEach<T extends Keyed>(
    items: readonly T[],
    call: (store: Store, own: T[], times: ChargeTimes) => Promise<void>,
  ) {
    await Promise.all(locate(items).map(({ store, own, times }) => call(store, own, times)))
  }

  const [first] = shards
  if (!first) throw new Error('a store of no shards')
  return decorate(first.store, {
    places: guarded,
    decide,
    isSplit: (charges) => locate(charges).length > 1,
    release: (charges) => callEach(charges, (store, own) => store.release(own)),
    revoke: (releases) => callEach(releases, (store, own) => store.revoke(own)),
    renew: (charges) => callEach(charges, (store, own) => store.renew(own)),
    settle: (differences, chargedAtMs) =>
      callEach(differences, (store, own, times) => store.settle(own, times.findEarliest(own, chargedAtMs))),
    delete: (keys) => callEach(keys, (store, own) => store.delete(own)),
    ping: async () => void (await Promise.all(shards.map(({ store }) => store.ping()))),
  })
}
