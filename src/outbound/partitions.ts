import type { Partition } from './partition.ts'

/**
 * Beyond this many identities, those that were not used for the longest time are forgotten, unless calls wait there.
 */
const MOST_IDLE = 1_000

/** The partition of each identity. */
export class Partitions {
  readonly #make: (identity: string) => Partition
  readonly #known = new Map<string, Partition>()

  constructor(make: (identity: string) => Partition) {
    this.#make = make
  }

  of(identity: string): Partition {
    const partition = this.#known.get(identity) ?? this.#make(identity)
    // Put last, so that the map's order is that of last use.
    this.#known.delete(identity)
    this.#known.set(identity, partition)
    if (this.#known.size > MOST_IDLE) this.#forgetOne()
    return partition
  }

  /** Those that are known, all or that of one identity. */
  known(identity: string | undefined): readonly Partition[] {
    if (identity === undefined) return [...this.#known.values()]
    const partition = this.#known.get(identity)
    return partition ? [partition] : []
  }

  #forgetOne(): void {
    for (const [identity, partition] of this.#known) {
      if (!partition.isIdle || partition.pausedMs > 0) continue
      this.#known.delete(identity)
      return
    }
  }
}
