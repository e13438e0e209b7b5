import { holdsSlots } from '../../algorithms/algorithm-table.ts'
import { countsNewIdentities, detectsNewIdentities, findMinRemaining } from '../../algorithms/decide.ts'
import type { Decision, DecisionRequest, LimitState, StoreCharge } from '../../model/charge.ts'
import type { Store } from '../../model/store.ts'
import type { CallContext } from '../../runtime/call-context.ts'
import { Lru } from '../../runtime/lru.ts'
import { ageUsage, countUnits, type Refusal } from './refusal-cache.ts'
import { decideSome, decorate } from './stage.ts'
import { formatStatusName, hasPenalty } from './status-cache.ts'

/** Refusals by one key that the store decides in a span. */
const MAX_CALLS = 3
/** Retry-After is never shorter, so a caller that obeys it does not notice. */
const SPAN_MS = 1_000
/** Refusals are repeated for no longer than this. */
const MAX_AGE_MS = 5_000
/** Refusals that are remembered of a key, each of another cost. */
const MAX_COSTS = 5
const MAX_KEYS = 10_000

interface RepeatedRefusal extends Omit<Refusal, 'untilMs' | 'usedAtReply'> {
  readonly units: number
}

/** Refusals by a key within a span. */
interface Refusals {
  readonly startMs: number
  /** Refusals that the store decided. */
  readonly calls: number
  /** Refusals of different costs, the latest first. When each was decided, the same number of units remained. */
  readonly latest: readonly [RepeatedRefusal, ...RepeatedRefusal[]]
  /** Remaining units by key, of charges with a penalty that did not refuse. */
  readonly remaining: ReadonlyMap<string, number>
  /** A request was granted since: units had come back, and were used again. */
  readonly isOver?: true
}

/**
 * Makes a store decide at most three refusals by one key a second, and repeats them until the second is over. It is for
 * refusals that cannot be cached until their retry-after time: each cost is refused by itself, and is repeated only while
 * no more units can remain. Slots may be released at any time, and an address that may bring no more new identities may
 * still bring known ones: there, a repeated refusal may be up to a second too old.
 */
export function withRefusalLimit(store: Store, now: () => number): Store {
  /** Keyed by key and plan, since each plan has its own limits. */
  const refusalsByName = new Lru<Refusals>(MAX_KEYS)
  /** When units of a key came back, as far as was seen: refusals whose call began before it no longer count. */
  const releasedAtMs = new Lru<number>(MAX_KEYS)
  /** Keys of identities that the store has seen. */
  const knownKeys = new Lru<true>(MAX_KEYS)

  const decide: Store['decide'] = async (request, context) => {
    const { action } = request
    if (action === 'peek' || action === 'record') return store.decide(request, context)
    const sentAtMs = now()
    const repeated = repeat(request, sentAtMs)
    if (repeated) return repeated
    const seen = action === 'take' && isLikelyRefused(request, sentAtMs) && (await peek(request, context))
    if (seen) return seen
    const decision = await store.decide(request, context)
    if (decision.granted === 0) noteRefusals(request, decision, sentAtMs)
    else noteGranted(request)
    return decision
  }

  /**
   * Finds out only if the identity is new. With Durable Objects, a charge would have to be reverted.
   * @returns undefined if it may be admitted, or if a refusal is to be counted
   */
  async function peek(request: DecisionRequest, context: CallContext | undefined): Promise<Decision | undefined> {
    const sentAtMs = now()
    const isPeeked = (charge: StoreCharge) => countsNewIdentities(charge) || isNew(charge)
    const seen = await decideSome(store, { ...request, action: 'peek' }, isPeeked, context)
    const isCounted = request.charges.some((charge, index) => mustCount(charge, seen.usage[index] ?? []))
    if (seen.granted > 0 || isCounted) return undefined
    noteRefusals(request, seen, sentAtMs)
    return seen
  }

  function repeat(request: DecisionRequest, nowMs: number): Decision | undefined {
    let first: RepeatedRefusal | undefined
    const usage = request.charges.map((charge) => {
      const found = findRefusal(charge, request, nowMs)
      if (!found || found.refusals.calls < MAX_CALLS || !isWithin(found.refusals, nowMs)) return []
      first ??= found.closest
      return ageUsage(found.closest, nowMs)
    })
    return first && { granted: 0, nowMs: first.nowMs + nowMs - first.sentAtMs, usage, isProvisional: true }
  }

  /** @returns true if the address brings too many identities, and this one is not known */
  function isLikelyRefused(request: DecisionRequest, nowMs: number): boolean {
    return request.charges.some((charge) => countsNewIdentities(charge) && findRefusal(charge, request, nowMs))
  }

  function findKnown(charge: StoreCharge): Refusals | undefined {
    const known = refusalsByName.get(formatStatusName(charge))
    const isTrue = known && !known.isOver && known.latest[0].sentAtMs > (releasedAtMs.get(charge.key) ?? 0)
    return isTrue ? known : undefined
  }

  /** @returns undefined if the charge does not refuse the request, as far as is known, or if the store must count it */
  function findRefusal(charge: StoreCharge, request: DecisionRequest, nowMs: number) {
    const refusals = charge.mode === 'enforce' ? findKnown(charge) : undefined
    if (!refusals) return undefined
    const units = countUnits(charge, request)
    const closest = findClosest(refusals, units)
    if (!closest || (units <= findMinRemaining(closest.usage) && !hasPenalty(closest.usage))) return undefined
    // A clock that stepped back says nothing about how much time has passed.
    if (nowMs < closest.receivedAtMs || nowMs >= closest.sentAtMs + findLongestRetryMs(closest.usage)) return undefined
    if (!mayEndAnyTime(charge) && !isCertain(closest, units, nowMs)) return undefined
    const before = request.charges.slice(0, request.charges.indexOf(charge))
    if (countsNewIdentities(charge) && !before.some((one) => isNew(one))) return undefined
    const isUncounted = (one: StoreCharge) =>
      !mayPenalize(one) ||
      (countsNewIdentities(charge) && isNew(one)) ||
      (refusals.remaining.get(one.key) ?? 0) >= countUnits(one, request)
    return request.charges.every(isUncounted) ? { refusals, closest } : undefined
  }

  /** @returns true for an identity that this isolate has not seen admitted */
  function isNew(charge: StoreCharge): boolean {
    return detectsNewIdentities(charge) && !knownKeys.get(charge.key)
  }

  function noteRefusals(request: DecisionRequest, { usage, nowMs, isProvisional }: Decision, sentAtMs: number): void {
    if (isProvisional) return
    const remaining = new Map<string, number>()
    for (const [index, charge] of request.charges.entries()) {
      const limits = usage[index] ?? []
      if (!mayPenalize(charge) || mustCount(charge, limits)) continue
      // Refusals by a penalty are not counted.
      remaining.set(charge.key, hasPenalty(limits) ? Number.POSITIVE_INFINITY : findMinRemaining(limits))
    }
    const receivedAtMs = now()
    for (const [index, charge] of request.charges.entries()) {
      const limits = usage[index] ?? []
      if (charge.mode === 'shadow' || findLongestRetryMs(limits) === 0 || mustCount(charge, limits)) continue
      if (sentAtMs <= (releasedAtMs.get(charge.key) ?? 0)) continue
      const units = countUnits(charge, request)
      const latest = { usage: limits, units, sentAtMs, receivedAtMs, nowMs }
      const known = findKnown(charge)
      const { startMs, calls } = known && isWithin(known, sentAtMs) ? known : { startMs: sentAtMs, calls: 0 }
      // If units were used or released since, the earlier limits are no longer true.
      const isTrue = (one: RepeatedRefusal) =>
        sentAtMs - one.sentAtMs < MAX_AGE_MS && findMinRemaining(limits) === findMinRemaining(one.usage)
      const others = known?.latest.filter((one) => one.units !== units && isTrue(one)) ?? []
      const all = [latest, ...others.slice(0, MAX_COSTS - 1)] as const
      refusalsByName.set(formatStatusName(charge), { startMs, calls: calls + 1, remaining, latest: all })
    }
  }

  function noteGranted({ charges }: DecisionRequest): void {
    for (const charge of charges) {
      if (detectsNewIdentities(charge)) knownKeys.set(charge.key, true)
      const known = holdsSlots(charge) ? undefined : findKnown(charge)
      if (known) refusalsByName.set(formatStatusName(charge), { ...known, isOver: true })
    }
  }

  function noteReleased(keys: readonly string[]): void {
    for (const key of keys) releasedAtMs.set(key, now())
  }

  return decorate(store, {
    decide,
    async release(charges) {
      await store.release(charges)
      noteReleased(charges.map(({ key }) => key))
    },
    async revoke(releases) {
      await store.revoke(releases)
      noteReleased(releases.map(({ charge }) => charge.key))
    },
    async settle(differences, chargedAtMs) {
      await store.settle(differences, chargedAtMs)
      noteReleased(differences.map(({ charge }) => charge.key))
    },
    async delete(keys) {
      await store.delete(keys)
      noteReleased(keys)
    },
  })
}

/** Finds the refusal of the fewest units that are as many as these: it waits no longer than it must, as far as is known. */
function findClosest({ latest }: Refusals, units: number): RepeatedRefusal | undefined {
  return latest.filter((one) => one.units >= units).toSorted((a, b) => a.units - b.units)[0]
}

/** Nothing says when such a charge stops refusing, so three calls a second have to do. */
function mayEndAnyTime(charge: StoreCharge): boolean {
  return countsNewIdentities(charge) || holdsSlots(charge)
}

/** The units cannot remain yet: until its reset, a limit has no more than it had. */
function isCertain({ usage, sentAtMs }: RepeatedRefusal, units: number, nowMs: number): boolean {
  return hasPenalty(usage) || usage.some((limit) => limit.remaining < units && nowMs < sentAtMs + limit.resetMs)
}

function mayPenalize({ mode, penalty }: StoreCharge): boolean {
  return mode === 'enforce' && penalty !== undefined
}

function isWithin({ startMs }: Refusals, nowMs: number): boolean {
  return nowMs >= startMs && nowMs < startMs + SPAN_MS
}

function findLongestRetryMs(limits: readonly LimitState[]): number {
  return Math.max(0, ...limits.map(({ retryAfterMs }) => retryAfterMs))
}

/** Refusals that lead to a penalty are counted by the store, each of them. */
function mustCount(charge: StoreCharge, limits: readonly LimitState[]): boolean {
  return mayPenalize(charge) && findLongestRetryMs(limits) > 0 && !hasPenalty(limits)
}
