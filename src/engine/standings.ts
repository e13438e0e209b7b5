import type { Decision, DecisionRequest, Rule } from '../model/charge.ts'
import { Lru } from '../runtime/lru.ts'
import { Standing } from './standing.ts'

/** Keys remembered at most. */
const MAX_KEYS = 10_000

/** How the keys stand that an isolate has asked about lately. */
export class Standings {
  readonly #standings = new Lru<Standing>(MAX_KEYS)
  /** Names of keys that have had several limits. */
  readonly #namesOfKeys = new Lru<Set<string>>(MAX_KEYS)
  /** Replies heard so far. */
  #heard = 0

  get heard(): number {
    return this.#heard
  }

  get(rule: Rule): Standing | undefined {
    return this.#standings.get(nameOf(rule))
  }

  of(rule: Rule): Standing {
    const name = nameOf(rule)
    if (rule.plan !== undefined) this.#addName(rule.key, name)
    return this.#named(name)
  }

  /**
   * @param heardBefore what `heard` was when the call was sent
   * @returns for each rule, whether nothing is known to have been spent since
   */
  hear({ rules }: DecisionRequest, decision: Decision, sentAtMs: number, heardBefore: number): boolean[] {
    const { granted, nowMs } = decision
    const heardAs = ++this.#heard
    return rules.map((rule, index) => {
      const usage = decision.usage[index] ?? []
      return usage.length === 0 || this.of(rule).hear({ granted, nowMs, usage, heardBefore, sentAtMs }, heardAs)
    })
  }

  /** Something other than a decision has changed these keys: nothing heard or asked before counts. */
  forget(keys: readonly string[]): void {
    const heardAs = ++this.#heard
    for (const key of keys) {
      this.#named(key).doubt(heardAs)
      for (const name of this.#namesOfKeys.get(key) ?? []) this.#named(name).doubt(heardAs)
    }
  }

  /** A call has failed that may have charged. */
  doubt({ rules }: DecisionRequest): void {
    const heardAs = ++this.#heard
    for (const rule of rules) this.get(rule)?.doubt(heardAs)
  }

  #addName(key: string, name: string): void {
    const names = this.#namesOfKeys.get(key)
    if (names) names.add(name)
    else this.#namesOfKeys.set(key, new Set([name]))
  }

  #named(name: string): Standing {
    let standing = this.#standings.get(name)
    if (!standing) {
      standing = new Standing()
      this.#standings.set(name, standing)
    }
    return standing
  }
}

/** Under which it is kept how a rule stands: what is left of a key is another thing to each plan. */
export function nameOf({ key, plan }: Rule): string {
  return plan === undefined ? key : `${key} ${plan}`
}
