/** The class of Durable Objects that a Worker exports. Other isolates of the Worker never load what an object runs. */

import type { LimitObject, ObjectEnvironment } from './limit-object.ts'
import type { ObjectState } from './objects.ts'

/**
 * A Durable Object that holds the state of one key; or, under a name that no key has, a document or counts that all
 * isolates share.
 */
export class LazyObject {
  readonly #state: ObjectState
  readonly #env: ObjectEnvironment
  #object: LimitObject | undefined

  constructor(state: ObjectState, env: ObjectEnvironment) {
    this.#state = state
    this.#env = env
  }

  async fetch(request: Request): Promise<Response> {
    return (await this.#open()).fetch(request)
  }

  /** Deletes what has expired. */
  async alarm(): Promise<void> {
    await (await this.#open()).alarm()
  }

  async #open(): Promise<LimitObject> {
    const { LimitObject } = await import('./limit-object.ts')
    this.#object ??= new LimitObject(this.#state, this.#env)
    return this.#object
  }
}
