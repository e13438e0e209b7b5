/** Makes one store of a Redis Cluster, whose calls may have keys of one hash slot only. */
import type { DecisionRequest } from '../../model/charge.ts'
import { type Store, StoreError } from '../../model/store.ts'
import type { CallContext } from '../../runtime/call-context.ts'
import { groupBy } from '../../runtime/lists.ts'
import { ChargeTimes } from '../../store/charge-times.ts'
import { decorate } from '../stages/stage.ts'
import { GuardedPlaces, type GuardOptions } from './guarded-place.ts'
import { type Keyed, readTag } from './keys.ts'
import { decideInPlaces } from './split-decision.ts'

export interface HashSlotsOptions extends GuardOptions {
  /** If false, the answer CROSSSLOT makes it true: some clusters are behind one address. */
  readonly isCluster: boolean
  /** @returns the name of the node that has a slot, if the client knows it */
  readonly findNode?: ((slot: number) => string | undefined) | undefined
}

/**
 * Calls a Redis Cluster with keys of one hash slot at a time, and no node while it keeps failing. docs/how-stores-work.md
 * describes how several slots decide.
 */
export function withHashSlots(store: Store, { isCluster, findNode, ...options }: HashSlotsOptions): Store {
  const times = new ChargeTimes()
  const nodes = new GuardedPlaces(options)
  let isSplit = isCluster

  function findStore(tag: string): Store {
    if (!isCluster) return store
    const name = findNode?.(findSlot(tag)) ?? ''
    return (nodes.byName.get(name) ?? nodes.add(name, store)).store
  }

  async function callInSlots<T extends Keyed, Answer>(
    items: readonly T[],
    call: (slots: ReadonlyMap<string, readonly T[]>) => Promise<Answer>,
  ): Promise<Answer> {
    // Others that happen to lie in one slot are called separately nevertheless.
    const slots = isSplit ? groupBy(items, readTag) : new Map([['', items]])
    try {
      return await call(slots)
    } catch (error) {
      if (slots.size > 1 || !(error instanceof StoreError && error.message.includes('CROSSSLOT'))) throw error
      // Nothing ran.
      isSplit = true
      return call(groupBy(items, readTag))
    }
  }

  async function callBySlot<T extends Keyed>(
    items: readonly T[],
    call: (own: readonly T[], store: Store) => Promise<void>,
  ) {
    await callInSlots(items, (slots) => Promise.all([...slots].map(([tag, own]) => call(own, findStore(tag)))))
  }

  function decide(request: DecisionRequest, context?: CallContext) {
    const [first, ...others] = request.charges
    if (first && others.length === 0) return findStore(isCluster ? readTag(first) : '').decide(request, context)
    return callInSlots(request.charges, (slots) => {
      const places = [...slots].map(([tag, charges]) => ({ store: findStore(tag), charges, times }))
      const [only, ...more] = places
      if (only && more.length === 0) return only.store.decide(request, context)
      return decideInPlaces(request, places, options.timeoutMs, context)
    })
  }

  return decorate(store, {
    ...(isCluster && { places: nodes }),
    decide,
    isSplit: (charges) => isSplit && groupBy(charges, readTag).size > 1,
    release: (charges) => callBySlot(charges, (own, node) => node.release(own)),
    revoke: (releases) => callBySlot(releases, (own, node) => node.revoke(own)),
    renew: (charges) => callBySlot(charges, (own, node) => node.renew(own)),
    settle: (differences, chargedAtMs) =>
      callBySlot(differences, (own, node) => node.settle(own, times.findEarliest(own, chargedAtMs))),
    delete: (keys) => callBySlot(keys, (own, node) => node.delete(own)),
  })
}

const SLOTS = 16_384

/** CRC16 of the tag, as XMODEM has it. https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/ */
function findSlot(tag: string): number {
  let crc = 0
  for (const byte of new TextEncoder().encode(tag.slice(1, -1))) {
    crc ^= byte << 8
    for (let bit = 0; bit < 8; bit++) crc = ((crc << 1) ^ (crc & 0x8000 ? 0x1021 : 0)) & 0xffff
  }
  return crc % SLOTS
}
