/** The schedulers of resources, in bounded memory. */
import type { Scheduler } from './scheduler.ts'

/** Beyond this, the least recently used resources are deleted if they have neither calls nor a pause. */
const MAX_RESOURCES = 5_000
/** How many are looked at for one that may be deleted. */
const MAX_TRIED = 10

export class Schedulers {
  readonly #create: (resource: string) => Scheduler
  /** Keyed by resource; the most recently used is the last. */
  readonly #schedulers = new Map<string, Scheduler>()

  constructor(create: (resource: string) => Scheduler) {
    this.#create = create
  }

  get(resource: string): Scheduler {
    const scheduler = this.#schedulers.get(resource) ?? this.#create(resource)
    this.#schedulers.delete(resource)
    this.#schedulers.set(resource, scheduler)
    if (this.#schedulers.size > MAX_RESOURCES) this.#deleteOne()
    return scheduler
  }

  resume(resource: string | undefined): void {
    for (const [name, scheduler] of this.#schedulers)
      if (resource === undefined || name === resource) scheduler.resume()
  }

  #deleteOne(): void {
    let tried = 0
    for (const [resource, scheduler] of this.#schedulers) {
      this.#schedulers.delete(resource)
      if (scheduler.isIdle) return
      this.#schedulers.set(resource, scheduler)
      if (++tried === MAX_TRIED) return
    }
  }
}
