import type { Recorded } from '../../support/object-site.ts'
import type { Limit } from '../../support/windows.ts'

/** A charge that was intended for one object, and its outcome. */
interface Reserved {
  readonly id: number
  readonly key: string
  /** Place among all that this object was to charge. */
  readonly place: number
  /** By the object's clock. */
  readonly ms: number
  readonly cost: number
  /** Whether there was room, as far as the object knew. */
  readonly isGranted: boolean
  isKept: boolean
}

/** One decision, as its objects saw it. */
export interface ObjectDecision {
  /** In the order in which the objects answered. */
  readonly reserved: readonly Reserved[]
  readonly isAdmitted: boolean
}

/** What all objects did, in order. */
export class ObjectRecord {
  /** Calls to objects. */
  calls = 0
  /** Those of them that are not the one that reserves a charge. */
  extraCalls = 0
  readonly #reserved = new Map<string, Reserved[]>()
  readonly #decisions = new Map<number, Reserved[]>()

  add(recorded: readonly Recorded[]): void {
    this.calls += recorded.length
    for (const { key, call, answer } of recorded) {
      if (call[0] !== 'reserve') this.extraCalls++
      if (call[0] === 'reserve') {
        this.#reserve(key, call[1], answer as Extract<Recorded, { call: typeof call }>['answer'])
      } else if (call[0] === 'close' && call[1].permits === 0) {
        const reserved = this.#decisions.get(call[1].id)?.find((one) => one.key === key)
        if (reserved) reserved.isKept = false
      }
    }
  }

  get keys(): readonly string[] {
    return [...this.#reserved.keys()]
  }

  /** In the order in which they began. */
  get decisions(): readonly ObjectDecision[] {
    return [...this.#decisions.values()].map((reserved) => {
      return { reserved, isAdmitted: reserved.every(({ isKept }) => isKept) }
    })
  }

  /** What stayed charged under a key, oldest first. */
  admissions(key: string): readonly Reserved[] {
    return (this.#reserved.get(key) ?? []).filter(({ isKept }) => isKept)
  }

  /** Refusals by an object although what stayed charged before left room in every limit. */
  countUndue(findLimits: (key: string) => readonly Limit[]): number {
    return this.decisions.filter(({ reserved }) => {
      const refusing = reserved.filter(({ isGranted }) => !isGranted)
      return refusing.length > 0 && refusing.every((one) => this.#hadRoom(one, findLimits(one.key)))
    }).length
  }

  #hadRoom({ key, place, ms, cost }: Reserved, limits: readonly Limit[]): boolean {
    const own = this.#reserved.get(key) ?? []
    const longestMs = Math.max(...limits.map(({ windowMs }) => windowMs))
    const used = limits.map(() => 0)
    for (let i = place - 1; i >= 0; i--) {
      const before = own[i] as Reserved
      // Dated by the end of its millisecond, it leaves its window one after this.
      if (before.ms < ms - longestMs) break
      if (!before.isKept) continue
      limits.forEach(({ windowMs }, at) => {
        if (before.ms >= ms - windowMs) used[at] = (used[at] ?? 0) + before.cost
      })
    }
    return limits.every(({ limit }, at) => (used[at] ?? 0) + cost <= limit)
  }

  #reserve(
    key: string,
    { charge: { cost }, shared, action }: Extract<Recorded, { call: readonly ['reserve', unknown] }>['call'][1],
    { nowMs, charged, fitting }: { readonly nowMs: number; readonly charged: number; readonly fitting: number },
  ): void {
    if (!shared || action === 'peek') return
    const own = this.#reserved.get(key) ?? []
    this.#reserved.set(key, own)
    const granted = { isGranted: fitting > 0, isKept: charged > 0 }
    const reserved = { id: shared.id, key, place: own.length, ms: nowMs, cost, ...granted }
    own.push(reserved)
    const decision = this.#decisions.get(shared.id)
    if (decision) decision.push(reserved)
    else this.#decisions.set(shared.id, [reserved])
  }
}
