/** Reads values of a YAML file, and says of a wrong one in which line and column it stands. */
import { type Alias, isAlias, isMap, isScalar, isSeq, LineCounter, type Node, parseDocument, visit } from 'yaml'

/** A mistake in a configuration file. Its message begins with file, line and column. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
}

type YamlFields<Name extends string> = Partial<Record<Name, Node>>

/** Aliases can make a small file say the same without an end. */
const MAX_MAPS = 200_000

export class YamlReader {
  readonly file: string
  readonly root: Node | null
  readonly #lines = new LineCounter()
  readonly #anchored = new Map<Alias, Node>()
  #mapCount = 0

  /** @throws {ConfigError} for anything but YAML */
  constructor(file: string, text: string) {
    this.file = file
    // As the reference server: `yes` and `on` are true, and keys are unique.
    const document = parseDocument(text, { version: '1.1', lineCounter: this.#lines, prettyErrors: false })
    const [error] = document.errors
    if (error)
      this.#failAt(error.pos[0], `expected YAML: ${error.message.charAt(0).toLowerCase()}${error.message.slice(1)}`)
    this.root = document.contents
    const anchors = new Map<string, Node>()
    visit(document, {
      Node: (_, node, path) => {
        if (!isAlias(node)) {
          if (node.anchor !== undefined) anchors.set(node.anchor, node)
          return
        }
        const anchored = anchors.get(node.source)
        if (anchored) this.#anchored.set(node, anchored)
        if (anchored && path.includes(anchored)) this.fail(node, `expected "*${node.source}" outside of what it names`)
      },
    })
  }

  #resolve(node: unknown): unknown {
    return isAlias(node) ? this.#anchored.get(node) : node
  }

  /** @throws {ConfigError} always */
  fail(node: Node | null | undefined, expected: string): never {
    return this.#failAt(node?.range?.[0] ?? 0, expected)
  }

  /** Reads a map with some of these keys. */
  readMap<Name extends string>(node: Node | null, what: string, names: readonly Name[]): YamlFields<Name> {
    const map = this.#resolve(node)
    if (!isMap(map)) return this.fail(node, `expected ${what} with some of ${names.join(', ')}`)
    if (++this.#mapCount > MAX_MAPS)
      return this.fail(node, `expected at most ${MAX_MAPS} maps, those of aliases included`)
    let fields: YamlFields<Name> = {}
    const own: YamlFields<Name> = {}
    for (const { key, value } of map.items) {
      const keyNode = key as Node
      // `<<` merges maps, and of several the first that has a key wins.
      if (isScalar(key) && typeof key.value === 'symbol') {
        const merged = this.#resolve(value)
        for (const each of isSeq(merged) ? merged.items.toReversed() : [value]) {
          fields = { ...fields, ...this.readMap(each as Node, 'a map', names) }
        }
        continue
      }
      const name = names.find((each) => isScalar(key) && each === key.value)
      if (name === undefined) this.fail(keyNode, `unknown key ${show(keyNode)}; expected one of ${names.join(', ')}`)
      // A key without a value is as if it were not there.
      if (isScalar(value) && value.value === null) continue
      if (value) own[name] = value as Node
    }
    return { ...fields, ...own }
  }

  readList(node: Node | undefined, what: string): readonly Node[] {
    if (node === undefined) return []
    const list = this.#resolve(node)
    return isSeq(list) ? (list.items as Node[]) : this.fail(node, `expected a list of ${what}, got ${show(node)}`)
  }

  /** Numbers are texts as they are written. */
  readText(node: Node | undefined): string {
    if (node === undefined) return ''
    const scalar = this.#resolve(node)
    if (!isScalar(scalar)) return this.fail(node, 'expected a text')
    return typeof scalar.value === 'string' ? scalar.value : (scalar.source ?? '')
  }

  readBoolean(node: Node | undefined): boolean {
    if (node === undefined) return false
    const scalar = this.#resolve(node)
    if (isScalar(scalar) && typeof scalar.value === 'boolean') return scalar.value
    return this.fail(node, `expected true or false, got ${show(node)}`)
  }

  readCount(node: Node | undefined): number {
    if (node === undefined) return 0
    const scalar = this.#resolve(node)
    const value = isScalar(scalar) ? scalar.value : undefined
    const isCount = typeof value === 'number' && Number.isInteger(value) && value >= 0 && value < 2 ** 32
    return isCount ? value : this.fail(node, `expected an integer from 0 to 4294967295, got ${show(node)}`)
  }

  #failAt(offset: number, message: string): never {
    const { line, col } = this.#lines.linePos(offset)
    throw new ConfigError(`${this.file}:${Math.max(1, line)}:${Math.max(1, col)}: ${message}`)
  }
}

function show(node: Node): string {
  return isScalar(node) ? `"${String(node.source ?? node.value).slice(0, 40)}"` : 'a list or a map'
}
