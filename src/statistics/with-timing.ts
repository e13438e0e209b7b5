import { decorate, type Stage } from '../engine/stage.ts'

export interface StoreWatch {
  storeAnswered(ms: number): void
  storeFailed(): void
}

/** Times the decisions of a store. @param now milliseconds */
export function withTiming(watch: StoreWatch, now: () => number): Stage {
  return (store) =>
    decorate(store, {
      async decide(request, context) {
        const sentAtMs = now()
        try {
          const decision = await store.decide(request, context)
          watch.storeAnswered(now() - sentAtMs)
          return decision
        } catch (error) {
          watch.storeFailed()
          throw error
        }
      },
    })
}
