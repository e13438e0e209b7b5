import { withHashSlots } from '../../src/core/engine/places/hash-slots.ts'
import type { Decision, DecisionRequest } from '../../src/core/model/charge.ts'
import { StoreError } from '../../src/core/model/store.ts'
import { storeWith } from './charges.ts'
import { MemoryScript } from './memory-script.ts'

/** Slots in memory, each called with keys of its own only. One decision after the other has nothing to give back. */
export class ClusterScript extends MemoryScript {
  #nowUs = 0
  readonly #cluster = withHashSlots(
    storeWith({
      decide: (request) => {
        refuseSeveralSlots(request.charges.map(({ key }) => key))
        return super.decide(request, this.#nowUs)
      },
    }),
    { timeoutMs: 60_000, isCluster: true },
  )

  override decide(request: DecisionRequest, nowUs: number): Promise<Decision> {
    this.#nowUs = nowUs
    return this.#cluster.decide(request)
  }
}

/** @throws what a node of a cluster answers to keys of different hash slots */
export function refuseSeveralSlots(keys: readonly string[]): void {
  const tags = new Set(keys.map((key) => /\{(.+?)\}/.exec(key)?.[1] ?? key))
  if (tags.size > 1)
    throw new StoreError("Redis answered an error: CROSSSLOT Keys in request don't hash to the same slot")
}
