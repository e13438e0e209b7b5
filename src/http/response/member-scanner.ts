/** Finds numbers in JSON while it passes, whatever its size, and holds nothing but them. */

/** Paths of one number: the first that has one counts. */
type Paths = readonly (readonly string[])[]

/** A number, or the sum of those of a list's items. */
export interface FoundNumber {
  readonly value: number
  /** False if an item of the list has none. */
  readonly isWhole: boolean
}

/** Numbers in the order of their paths; undefined: the document has no such number. */
export type FoundNumbers = readonly (FoundNumber | undefined)[]

/** A token of pointers, and where these lead. */
interface Node {
  readonly children: Map<string, Node>
  readonly leaves: { readonly index: number; readonly rank: number; readonly isInList: boolean }[]
}

/** A list or a table on the way to what is looked for. */
interface OpenValue {
  readonly isList: boolean
  readonly nodes: readonly Node[]
  item: number
}

interface RankedNumber {
  readonly rank: number
  readonly value: number
}

const NO_NODES: readonly Node[] = []
/** A longer number is none. */
const MAX_DIGITS = 40
/** `\u0061` for "a". */
const ESCAPED_CHARACTERS = 6
/** The last item of a list; it stands for the one after it in RFC 6901, where there is no value. */
const LAST = '-'

/**
 * Reads documents that follow each other, with anything but brackets and quotes between them. Of a list, a place that
 * begins with an index is read in the list, and any other one in each item: then the sum of the items is found. Of members
 * of one name, the last one counts, as in `JSON.parse`.
 */
export class MemberScanner {
  readonly #root: Node = { children: new Map(), leaves: [] }
  readonly #start = [this.#root]
  readonly #count: number
  readonly #maxName: number
  readonly #onDocument: (numbers: FoundNumbers) => void
  readonly #levels: OpenValue[] = []
  /** Lists and tables that are open in one that is of no interest. */
  #skipped = 0
  /** Where the next value is; of no interest without nodes. */
  #next: readonly Node[]
  #isName = false
  #isInString = false
  #isEscaped = false
  /** The text so far of a name or a number that may be of interest. */
  #name: string | undefined
  #number = ''
  readonly #found: (RankedNumber | undefined)[] = []
  readonly #sums: { value: number; items: number }[] = []
  #items = 0

  /** @param onDocument called for each document that has a number */
  constructor(wanted: readonly Paths[], onDocument: (numbers: FoundNumbers) => void) {
    this.#count = wanted.length
    this.#onDocument = onDocument
    const tokens = wanted.flat(2)
    this.#maxName = ESCAPED_CHARACTERS * Math.max(0, ...tokens.map(({ length }) => length))
    for (const [index, paths] of wanted.entries()) {
      for (const [rank, path] of paths.entries()) {
        let node = this.#root
        for (const token of path) {
          const child = node.children.get(token) ?? { children: new Map(), leaves: [] }
          node.children.set(token, child)
          node = child
        }
        node.leaves.push({ index, rank, isInList: /^(?:-|\d+)$/.test(path[0] ?? '') })
      }
    }
    this.#next = this.#start
  }

  /** Begins another document: the rest of this one is missing. */
  reset(): void {
    this.#levels.length = 0
    this.#skipped = 0
    this.#next = this.#start
    this.#isInString = false
    this.#isEscaped = false
    this.#isName = false
    this.#name = undefined
    this.#number = ''
    this.#found.length = 0
    this.#sums.length = 0
    this.#items = 0
  }

  add(text: string, from = 0, end = text.length): void {
    for (let at = from; at < end; at++) {
      if (this.#isInString) at = this.#passString(text, at, end)
      else if (this.#skipped > 0) at = this.#skip(text, at, end)
      else this.#pass(text.charCodeAt(at))
    }
  }

  /** Within what is of no interest, only brackets and quotes matter. @returns the index of the one that it stops at */
  #skip(text: string, from: number, end: number): number {
    let at = from
    for (; at < end; at++) {
      const code = text.charCodeAt(at)
      if (code === 34) {
        this.#isInString = true
        break
      }
      if (code === 123 || code === 91) this.#skipped++
      else if ((code === 125 || code === 93) && --this.#skipped === 0) {
        this.#endValue()
        break
      }
    }
    return at
  }

  #pass(code: number): void {
    // "+", "-", ".", digits and "e" or "E"
    if ((code > 42 && code < 58 && code !== 44 && code !== 47) || code === 101 || code === 69) {
      if (this.#next.length > 0 && this.#number.length < MAX_DIGITS) this.#number += String.fromCharCode(code)
      return
    }
    if (this.#number !== '') this.#endNumber()
    if (code === 34) {
      this.#isInString = true
      this.#name = this.#isName ? '' : undefined
    } else if (code === 123 || code === 91) this.#open(code === 91)
    else if (code === 125 || code === 93) this.#close()
    else if (code === 44) this.#separate()
  }

  /** @returns the index of the last character that belongs to the string */
  #passString(text: string, from: number, end: number): number {
    let at = from
    let isEscaped = this.#isEscaped
    while (at < end) {
      const code = text.charCodeAt(at)
      if (isEscaped) isEscaped = false
      else if (code === 92) isEscaped = true
      else if (code === 34) break
      at++
    }
    this.#isEscaped = isEscaped
    if (this.#name !== undefined) {
      this.#name += text.slice(from, at)
      // Too long to be one of those.
      if (this.#name.length > this.#maxName) this.#name = undefined
    }
    if (at === end) return at
    this.#isInString = false
    if (this.#isName && this.#skipped === 0) this.#endName()
    return at
  }

  #endName(): void {
    this.#isName = false
    const name = this.#name?.includes('\\') ? decodeName(this.#name) : this.#name
    this.#name = undefined
    this.#next = name === undefined ? NO_NODES : findChildren(this.#levels.at(-1)?.nodes ?? NO_NODES, name)
  }

  #open(isList: boolean): void {
    if (this.#next.every(({ children }) => children.size === 0)) {
      this.#skipped = 1
      return
    }
    this.#levels.push({ isList, nodes: this.#next, item: 0 })
    this.#isName = !isList
    this.#next = NO_NODES
    if (isList) this.#beginItem()
  }

  #close(): void {
    const level = this.#levels.pop()
    // The last item of a list that is a number, a word or nothing at all.
    if (this.#levels.length === 0 && level?.isList && this.#next.length > 0 && level.item > 0) this.#endItem()
    this.#isName = false
    this.#endValue()
  }

  /** A list or a table has ended. */
  #endValue(): void {
    this.#next = NO_NODES
    if (this.#levels.length === 0) this.#endDocument()
    else if (this.#levels.length === 1 && this.#levels[0]?.isList) this.#endItem()
  }

  #separate(): void {
    const level = this.#levels.at(-1)
    if (!level) return
    if (level.isList) {
      // An item of a list of the root that is no table has told nothing.
      if (this.#levels.length === 1 && this.#next.length > 0) this.#endItem()
      level.item++
      this.#beginItem()
    } else this.#isName = true
  }

  #beginItem(): void {
    const { nodes, item } = this.#levels.at(-1) as OpenValue
    this.#next = [...findChildren(nodes, `${item}`), ...findChildren(nodes, LAST)]
    // Each item of a list of the root may be what the root is elsewhere.
    if (this.#levels.length === 1) this.#next = [...this.#next, this.#root]
  }

  #endNumber(): void {
    const text = this.#number
    this.#number = ''
    const value = text.length < MAX_DIGITS ? Number(text) : Number.NaN
    if (!(value >= 0 && value < Number.POSITIVE_INFINITY)) return
    for (const { index, rank, isInList } of this.#next.flatMap(({ leaves }) => leaves)) {
      const slot = isInList && this.#levels[0]?.isList ? this.#count + index : index
      if (rank <= (this.#found[slot]?.rank ?? rank)) this.#found[slot] = { rank, value }
    }
  }

  #endItem(): void {
    this.#next = NO_NODES
    for (let index = 0; index < this.#count; index++) {
      const own = this.#found[index]
      if (!own) continue
      const sum = this.#sums[index] ?? { value: 0, items: 0 }
      this.#sums[index] = { value: sum.value + own.value, items: sum.items + 1 }
      this.#found[index] = undefined
    }
    this.#items++
  }

  #endDocument(): void {
    if (this.#found.length === 0 && this.#sums.length === 0) {
      this.reset()
      return
    }
    const numbers = Array.from({ length: this.#count }, (_, index) => {
      const own = this.#found[this.#count + index] ?? this.#found[index]
      const sum = this.#sums[index]
      if (own) return { value: own.value, isWhole: true }
      return sum && { value: sum.value, isWhole: sum.items === this.#items }
    })
    this.reset()
    this.#onDocument(numbers)
  }
}

function findChildren(nodes: readonly Node[], token: string): readonly Node[] {
  // There is mostly one, and it mostly has no such child.
  if (nodes.length === 1 && nodes[0]?.children.has(token) === false) return NO_NODES
  return nodes.flatMap(({ children }) => children.get(token) ?? [])
}

function decodeName(name: string): string | undefined {
  try {
    return JSON.parse(`"${name}"`)
  } catch {
    return undefined
  }
}
