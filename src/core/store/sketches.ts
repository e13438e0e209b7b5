/** Counts the most frequent of many names in bounded space. */

/**
 * The most frequent names, in bounded space: a summary as Space-Saving keeps it (Metwally, Agrawal and El Abbadi,
 * "Efficient Computation of Frequent and Top-k Elements in Data Streams", 2005), merged as in Cafaro, Pulimeno and
 * Tempesta, "A parallel Space Saving algorithm for frequent items", 2016. Same as `lua/counters/merge-sketches.lua`.
 *
 * After n events, each name in a sketch of k names was seen at most `count` times and at least `count - over` times, and no
 * name that is missing more than `floor` times; neither `over` nor `floor` exceeds n/k, however many sketches of at least
 * k names were merged.
 */
export interface Sketch {
  /** The most frequent first. */
  readonly items: readonly SketchItem[]
  /** A name that is not among the items was seen at most so often. */
  readonly floor: number
}

export interface SketchItem {
  /** Without white space, of ASCII. */
  readonly name: string
  readonly count: number
  readonly over: number
  /** The latest one that was not empty, for people to read. */
  readonly label?: string | undefined
}

export const NO_SKETCH: Sketch = { items: [], floor: 0 }

/** @param capacity names that the result keeps at most */
export function mergeSketches(one: Sketch, other: Sketch, capacity: number): Sketch {
  const ones = new Map(one.items.map((item) => [item.name, item]))
  const merged: SketchItem[] = other.items.map((item) => {
    const known = ones.get(item.name)
    ones.delete(item.name)
    const { count, over } = known ?? { count: one.floor, over: one.floor }
    return { ...item, count: item.count + count, over: item.over + over, label: item.label ?? known?.label }
  })
  for (const item of ones.values()) {
    merged.push({ ...item, count: item.count + other.floor, over: item.over + other.floor })
  }
  return truncateSketch(merged, one.floor + other.floor, capacity)
}

export function truncateSketch(items: SketchItem[], floor: number, capacity: number): Sketch {
  items.sort((a, b) => b.count - a.count || (a.name < b.name ? -1 : 1))
  const [skipped] = items.splice(capacity)
  return { items, floor: Math.max(floor, skipped?.count ?? 0) }
}

/** Writes the floor, then a line for each item, as Redis keeps them. */
export function writeSketch({ items, floor }: Sketch): string {
  const lines = items.map(({ name, count, over, label }) => {
    return `\n${name} ${count} ${over}${label === undefined ? '' : ` ${encodeURIComponent(label)}`}`
  })
  return `${floor}${lines.join('')}`
}

export function readSketch(text: string): Sketch | undefined {
  const [floor = '', ...lines] = text.split('\n')
  const items = lines.map(readItem)
  return /^\d+$/.test(floor) && items.every((item) => item !== undefined) ? { items, floor: Number(floor) } : undefined
}

function readItem(line: string): SketchItem | undefined {
  const [, name, count, over, label] = /^(\S+) (\d+) (\d+)(?: ((?:[^\s%]|%[\dA-F]{2})+))?$/.exec(line) ?? []
  if (name === undefined) return undefined
  return { name, count: Number(count), over: Number(over), ...(label !== undefined && { label: decodeLabel(label) }) }
}

function decodeLabel(label: string): string {
  try {
    return decodeURIComponent(label)
  } catch {
    // It was cut in the middle of a character.
    return label
  }
}
