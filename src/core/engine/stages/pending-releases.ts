/** Keeps slots whose release has failed, until the store takes them back. */
import { findLifetimeMs } from '../../algorithms/concurrency.ts'
import type { StoreCharge } from '../../model/charge.ts'
import { type Release, type Store, StoreError } from '../../model/store.ts'
import { sleep, waitAtMost } from '../../runtime/sleep.ts'

/** Slots that may wait for their release (about 2 MB); beyond that, the oldest stay held until their deadline. */
const MAX_PENDING = 10_000
/** Slots of one call. */
const BATCH = 200
/** Pause after a call that failed. */
const PAUSE_MS = 500
/** A call that is unanswered for so long may have died with its connection: another is sent. */
const PATIENCE_MS = 1_000
/** One request keeps trying for so long: a Worker is stopped 30 s after its response. */
const KEEP_MS = 25_000

/**
 * Releases slots however long the store is unavailable. On Workers no request may await a promise of another, so pending
 * releases are plain data, and `keep` of some request sends them; when its time is over, a later request continues.
 */
export class PendingReleases {
  readonly #store: Pick<Store, 'revoke'>
  readonly #now: () => number
  readonly #pending = new Map<StoreCharge['slot'], { readonly release: Release; readonly untilMs: number }>()
  /** The time of the request that keeps trying ends here. */
  #keptUntilMs = 0

  constructor(store: Pick<Store, 'revoke'>, now: () => number) {
    this.#store = store
    this.#now = now
  }

  get size(): number {
    return this.#pending.size
  }

  add(releases: readonly Release[]): void {
    for (const release of releases) {
      const { slot, limits } = release.charge
      const untilMs = this.#now() + findLifetimeMs(limits[0]?.windowMs ?? 0)
      this.#pending.set(slot, { release, untilMs })
    }
    for (const slot of this.#pending.keys()) {
      if (this.#pending.size <= MAX_PENDING) break
      this.#pending.delete(slot)
    }
  }

  /**
   * Sends pending releases until they are answered, unless another request does so and has enough time.
   * @throws {StoreError} if the store was unavailable for all the time that a request has
   */
  async keep(): Promise<void> {
    const startMs = this.#now()
    const leftMs = this.#keptUntilMs - startMs
    // If more time remains than there can be, the clock has stepped back.
    if (leftMs > KEEP_MS / 2 && leftMs <= KEEP_MS) return
    const untilMs = startMs + KEEP_MS
    this.#keptUntilMs = untilMs
    while (this.#pending.size > 0) {
      if (this.#now() >= untilMs) throw new StoreError(`${this.#pending.size} slots wait to be given back`)
      const isAnswered = await waitAtMost(this.#send(), PATIENCE_MS)
      if (this.#pending.size > 0 && isAnswered === false) await sleep(PAUSE_MS)
    }
    if (this.#keptUntilMs === untilMs) this.#keptUntilMs = 0
  }

  /** @returns false if the call failed */
  async #send(): Promise<boolean> {
    const nowMs = this.#now()
    const batch: Release[] = []
    for (const [slot, { release, untilMs }] of this.#pending) {
      if (untilMs <= nowMs) this.#pending.delete(slot)
      else if (batch.push(release) === BATCH) break
    }
    if (batch.length === 0) return true
    try {
      await this.#store.revoke(batch)
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
      return false
    }
    for (const { charge } of batch) this.#pending.delete(charge.slot)
    return true
  }
}
