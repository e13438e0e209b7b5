/** Counts the most frequent names in bounded space (Metwally et al. 2005). */
import { type Sketch, truncateSketch } from '../../core/store/sketches.ts'

interface Item {
  readonly name: string
  count: number
  /** The count may be too high by this. */
  readonly over: number
  label: string | undefined
}

/**
 * One name beyond twice the capacity makes the rarer half go, and not only the rarest: a flood of new names searches for
 * that once for many of them.
 */
export class SpaceSaving {
  readonly #capacity: number
  #items = new Map<string, Item>()
  /** A name that was dropped, or never seen, was seen at most so often. */
  #floor = 0

  constructor(capacity: number) {
    this.#capacity = capacity
  }

  see(name: string): void {
    const item = this.#items.get(name)
    if (item) item.count++
    else this.#add(name)
  }

  hasLabel(name: string): boolean {
    return this.#items.get(name)?.label !== undefined
  }

  /** Labels names that were seen, unless others have taken their places since. */
  label(names: readonly string[], label: string): void {
    for (const name of names) {
      const item = this.#items.get(name)
      if (item) item.label = label
    }
  }

  toSketch(maxItems: number): Sketch {
    const items = Array.from(this.#items.values(), ({ label, ...item }) => ({ ...item, ...(label && { label }) }))
    return truncateSketch(items, this.#floor, Math.min(maxItems, this.#capacity))
  }

  #add(name: string): void {
    if (this.#items.size === 2 * this.#capacity) {
      const { items, floor } = truncateSketch([...this.#items.values()], this.#floor, this.#capacity)
      this.#items = new Map((items as Item[]).map((item) => [item.name, item]))
      this.#floor = floor
    }
    this.#items.set(name, { name, count: this.#floor + 1, over: this.#floor, label: undefined })
  }
}
