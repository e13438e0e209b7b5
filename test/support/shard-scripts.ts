import { withShards } from '../../src/core/engine/places/shards.ts'
import type { Decision, DecisionRequest } from '../../src/core/model/charge.ts'
import type { Shard } from '../../src/core/model/store.ts'
import { storeWith } from './charges.ts'
import { MemoryScript } from './memory-script.ts'

/** Databases in memory with one clock. One decision after the other has nothing to give back. */
class ShardScripts {
  #nowUs = 0
  readonly #store

  constructor(shards: readonly Shard[]) {
    const stores = shards.map((shard) => {
      const script = new MemoryScript()
      return { ...shard, store: storeWith({ decide: (request) => script.decide(request, this.#nowUs) }) }
    })
    this.#store = withShards(stores, { timeoutMs: 60_000, now: () => this.#nowUs / 1000 })
  }

  decide(request: DecisionRequest, nowUs: number): Promise<Decision> {
    this.#nowUs = nowUs
    return this.#store.decide(request)
  }
}

export class Shards extends ShardScripts {
  constructor() {
    super([{ name: 'a' }, { name: 'b' }, { name: 'c' }])
  }
}

/** Both layouts have counted from the beginning, so that they are of one mind. */
export class MovingShards extends ShardScripts {
  constructor() {
    super([
      { name: 'a' },
      { name: 'b', state: 'leaving' },
      { name: 'c', state: 'joining' },
      { name: 'd', state: 'joining' },
    ])
  }
}
