import { type Sketch, truncateSketch } from '../store/counters.ts'

interface Item {
  readonly name: string
  count: number
  /** The count may be too high by this. */
  readonly over: number
  label: string | undefined
}

/** Counts the most frequent names in bounded space (Metwally et al. 2005): a new name replaces the rarest one. */
export class SpaceSaving {
  readonly #capacity: number
  readonly #items = new Map<string, Item>()

  constructor(capacity: number) {
    this.#capacity = capacity
  }

  see(name: string): void {
    const item = this.#items.get(name) ?? this.#add(name)
    item.count++
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
    return truncateSketch(items, items.length === this.#capacity ? this.#findLeast().count : 0, maxItems)
  }

  #add(name: string): Item {
    let over = 0
    if (this.#items.size === this.#capacity) {
      const least = this.#findLeast()
      this.#items.delete(least.name)
      over = least.count
    }
    const item = { name, count: over, over, label: undefined }
    this.#items.set(name, item)
    return item
  }

  #findLeast(): Item {
    let least: Item | undefined
    for (const item of this.#items.values()) if (!least || item.count < least.count) least = item
    return least as Item
  }
}
