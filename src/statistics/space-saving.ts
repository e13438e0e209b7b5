import { type Sketch, type SketchItem, truncated } from '../store/counters.ts'

/**
 * Counts the most frequent of any number of names in bounded space (Metwally et al. 2005): a new name takes the place of
 * the one that was seen least, and its count with it, as what it may be too high by.
 */
export class SpaceSaving {
  readonly #capacity: number
  /** Where a name's numbers are. */
  readonly #places = new Map<string, number>()
  readonly #names: string[] = []
  readonly #labels: (string | undefined)[] = []
  readonly #counts: Float64Array
  readonly #over: Float64Array

  /** @param capacity names kept at most */
  constructor(capacity: number) {
    this.#capacity = capacity
    this.#counts = new Float64Array(capacity)
    this.#over = new Float64Array(capacity)
  }

  see(name: string): void {
    const place = this.#places.get(name) ?? this.#placeFor(name)
    this.#counts[place] = (this.#counts[place] as number) + 1
  }

  hasLabel(name: string): boolean {
    const place = this.#places.get(name)
    return place !== undefined && this.#labels[place] !== undefined
  }

  /** Of a name that was seen, unless others have taken its place since. */
  label(name: string, label: string): void {
    const place = this.#places.get(name)
    if (place !== undefined) this.#labels[place] = label
  }

  /** @param most names that the sketch has at most */
  sketch(most: number): Sketch {
    const items = this.#names.map((name, place): SketchItem => {
      const label = this.#labels[place]
      const count = this.#counts[place] as number
      return { name, count, over: this.#over[place] as number, ...(label && { label }) }
    })
    const isFull = items.length === this.#capacity
    return truncated(items, isFull ? (this.#counts[this.#least()] as number) : 0, most)
  }

  #placeFor(name: string): number {
    let place = this.#names.length
    if (place === this.#capacity) {
      place = this.#least()
      this.#places.delete(this.#names[place] as string)
      this.#over[place] = this.#counts[place] as number
    }
    this.#places.set(name, place)
    this.#names[place] = name
    this.#labels[place] = undefined
    return place
  }

  #least(): number {
    let place = 0
    for (let other = 1; other < this.#capacity; other++) {
      if ((this.#counts[other] as number) < (this.#counts[place] as number)) place = other
    }
    return place
  }
}
