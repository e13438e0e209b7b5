import { decorate, type Stage } from '../engine/stage.ts'
import type { Recorder } from './recorder.ts'

/** Times the decisions of a store. @param now milliseconds */
export function withTiming(watch: Pick<Recorder, 'onStoreAnswered' | 'onStoreFailed'>, now: () => number): Stage {
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
