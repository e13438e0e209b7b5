import { decorate, type Stage } from '../engine/stage.ts'

export interface StoreWatch {
  onStoreAnswered(ms: number): void
  onStoreFailed(): void
}

/** Times the decisions of a store. @param now milliseconds */
export function withTiming(watch: StoreWatch, now: () => number): Stage {
  return (store) =>
    decorate(store, {
      async decide(request, context) {
        const sentAtMs = now()
        try {
          const decision = await store.decide(request, context)
          watch.onStoreAnswered(now() - sentAtMs)
          return decision
        } catch (error) {
          watch.onStoreFailed()
          throw error
        }
      },
    })
}
