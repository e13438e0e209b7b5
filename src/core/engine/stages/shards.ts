/** Makes one store of several databases, each of which counts a share of the identities. */
import type { Decision, DecisionRequest, StoreCharge } from '../../model/charge.ts'
import type { Store } from '../../model/store.ts'
import type { CallContext } from '../../runtime/call-context.ts'
import { hashText } from '../../runtime/hash.ts'
import { ChargeTimes } from '../../store/charge-times.ts'
import { type GuardedPlace, type GuardOptions, guardPlace } from './circuit-breaker.ts'
import { decideInPlaces, groupBy, type Keyed, readTag } from './split-decision.ts'
import { decorate } from './stage.ts'

/**
 * `joining`: it is about to count a share, and `leaving`: others are about to count its share. Meanwhile what moves is
 * charged in both places, all or nothing, so that after a longest window the next place knows all of it.
 */
export const SHARD_STATES = ['joining', 'leaving'] as const
export type ShardState = (typeof SHARD_STATES)[number]

/** One of several databases. */
export interface Shard {
  /** It decides what the shard counts, so it stays the same, whatever address it has, and wherever it stands in a list. */
  readonly name: string
  /** Default: neither. */
  readonly state?: ShardState | undefined
}

/** @returns the shards that count now, and those that are to */
export function findLayouts<Any extends Shard>(shards: readonly Any[]) {
  const now = shards.filter(({ state }) => state !== 'joining')
  const next = shards.filter(({ state }) => state !== 'leaving')
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

interface PlacedShard extends Shard {
  readonly place: GuardedPlace
}

/**
 * Counts each identity in one of several databases, so that one call decides all of its limits. Several identities are
 * decided as in a cluster (docs/how-stores-work.md). A database that keeps failing is not called, and the others are.
 * @param shards each layout has at least one
 */
export function withShards(shards: readonly (Shard & { readonly store: Store })[], options: GuardOptions): Store {
  const times = new ChargeTimes()
  const placed = shards.map((shard) => ({ ...shard, place: guardPlace(shard.name, shard.store, options) }))
  const { now, next, isMoving } = findLayouts<PlacedShard>(placed)

  const findNow = (item: Keyed) => findShard(readTag(item), now)
  const findNext = (item: Keyed) => findShard(readTag(item), next)
  const moves = (item: Keyed) => isMoving && findNow(item) !== findNext(item)

  function decide(request: DecisionRequest, context?: CallContext): Promise<Decision> {
    const { charges } = request
    const toPlaces = (groups: Map<PlacedShard, StoreCharge[]>, isNext: boolean) =>
      [...groups].map(([{ place }, charges]) => ({ store: place.store, charges, isNext }))
    const places = toPlaces(groupBy(charges, findNow), false)
    if (isMoving) places.push(...toPlaces(groupBy(charges.filter(moves), findNext), true))
    const [only, ...others] = places
    if (only && others.length === 0) return only.store.decide(request, context)
    return decideInPlaces(request, places, { ...options, times }, context)
  }

  async function callEach<T extends Keyed>(
    items: readonly T[],
    call: (store: Store, own: readonly T[]) => Promise<void>,
  ) {
    const located = items.flatMap((item) => {
      return (moves(item) ? [findNow(item), findNext(item)] : [findNow(item)]).map(({ place }) => ({ item, place }))
    })
    const groups = groupBy(located, ({ place }) => place)
    await Promise.all(
      [...groups].map(([{ store }, own]) =>
        call(
          store,
          own.map(({ item }) => item),
        ),
      ),
    )
  }

  const [first] = shards
  if (!first) throw new Error('a store of no shards')
  return decorate(first.store, {
    places: new Map(placed.map(({ name, place }) => [name, place])),
    decide,
    isSplit: (charges) => charges.some(moves) || groupBy(charges, findNow).size > 1,
    release: (charges) => callEach(charges, (store, own) => store.release(own)),
    revoke: (releases) => callEach(releases, (store, own) => store.revoke(own)),
    renew: (charges) => callEach(charges, (store, own) => store.renew(own)),
    settle: (differences, chargedAtMs) =>
      callEach(differences, (store, own) => store.settle(own, times.findEarliest(own, chargedAtMs))),
    delete: (keys) => callEach(keys, (store, own) => store.delete(own)),
    ping: async () => void (await Promise.all(shards.map(({ store }) => store.ping()))),
  })
}
