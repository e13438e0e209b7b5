import { decorate } from '../engine/stage.ts'
import type { Store } from '../model/store.ts'
import type { Recorder } from './recorder.ts'

type Watch = Pick<Recorder, 'onStoreAnswered' | 'onStoreFailed'>

/** Times the decisions of a store. @param now milliseconds */
export function withTiming(store: Store, watch: Watch, now: () => number): Store {
  return decorate(store, {
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
