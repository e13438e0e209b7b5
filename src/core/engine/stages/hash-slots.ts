/** Makes one store of a Redis Cluster, whose calls may have keys of one hash slot only. */
import type { Decision, DecisionRequest, StoreCharge } from '../../model/charge.ts'
import { type Store, StoreError } from '../../model/store.ts'
import { type CallContext, Deadlines, TOO_LATE } from '../../runtime/call-context.ts'
import { ChargeTimes } from '../../store/charge-times.ts'
import { SplitDecision } from './split-decision.ts'
import { decorate } from './stage.ts'

export interface HashSlotsOptions {
  /** Deadline of a decision, in milliseconds. */
  readonly timeoutMs: number
  /** If false, the answer CROSSSLOT makes it true: some clusters are behind one address. */
  readonly isCluster: boolean
}

type Keyed = string | StoreCharge | { readonly charge: StoreCharge }

/** Calls a Redis Cluster with keys of one hash slot at a time. docs/how-stores-work.md describes how several of them decide. */
export function withHashSlots(store: Store, { timeoutMs, isCluster }: HashSlotsOptions): Store {
  const times = new ChargeTimes()
  let isSplit = isCluster

  async function callInSlots<T extends Keyed, Answer>(
    items: readonly T[],
    call: (slots: readonly (readonly T[])[]) => Promise<Answer>,
  ): Promise<Answer> {
    const slots = isSplit ? groupBySlot(items) : [items]
    try {
      return await call(slots)
    } catch (error) {
      if (slots.length > 1 || !(error instanceof StoreError && error.message.includes('CROSSSLOT'))) throw error
      // Nothing ran.
      isSplit = true
      return call(groupBySlot(items))
    }
  }

  async function callBySlot<T extends Keyed>(items: readonly T[], call: (own: readonly T[]) => Promise<void>) {
    await callInSlots(items, (slots) => Promise.all(slots.map(call)))
  }

  async function decideBySlot(
    request: DecisionRequest,
    slots: readonly (readonly StoreCharge[])[],
    context: CallContext | undefined,
  ): Promise<Decision> {
    const places = slots.map((charges) => ({ store, charges }))
    const decision = new SplitDecision(request, places, context)
    const decided = await (context?.deadlines ?? Deadlines.createForOne()).waitWithin(timeoutMs, decision.decide())
    if (decided === TOO_LATE) {
      decision.isOver = true
      throw new StoreError('Redis did not answer within the deadline')
    }
    for (const [key, atMs] of decision.decidedAtMs) times.remember(key, decided.nowMs, atMs)
    return decided
  }

  function decide(request: DecisionRequest, context?: CallContext): Promise<Decision> {
    if (request.charges.length === 1) return store.decide(request, context)
    return callInSlots(request.charges, (slots) =>
      slots.length === 1 ? store.decide(request, context) : decideBySlot(request, slots, context),
    )
  }

  return decorate(store, {
    decide,
    isSplit: (charges) => isSplit && groupBySlot(charges).length > 1,
    revoke: (releases) => callBySlot(releases, (own) => store.revoke(own)),
    renew: (charges) => callBySlot(charges, (own) => store.renew(own)),
    settle: (differences, chargedAtMs) =>
      callBySlot(differences, (own) => {
        const ownTimesMs = own.map(({ charge }) => times.get(charge.key, chargedAtMs))
        return store.settle(own, Math.min(...ownTimesMs))
      }),
    delete: (keys) => callBySlot(keys, (own) => store.delete(own)),
  })
}

/**
 * Keys with the same hash tag, which is their digest, lie in one slot. Others that happen to do so are called separately
 * nevertheless.
 */
function groupBySlot<T extends Keyed>(items: readonly T[]): T[][] {
  const groups = new Map<string, T[]>()
  for (const item of items) {
    const key = getKey(item)
    const tag = key.slice(Math.max(0, key.lastIndexOf('{')))
    const group = groups.get(tag)
    if (group) group.push(item)
    else groups.set(tag, [item])
  }
  return [...groups.values()]
}

function getKey(item: Keyed): string {
  if (typeof item === 'string') return item
  return 'key' in item ? item.key : item.charge.key
}
