import type { Decision, DecisionRequest } from '../limit/rule.ts'
import { Generations } from './generations.ts'
import { Standing } from './standing.ts'

/** Keys remembered at most. */
const MAX_KEYS = 10_000

/** How the keys stand that an isolate has asked about lately. */
export class Standings {
  readonly #standings = new Generations<Standing>(MAX_KEYS)
  /** Replies heard so far. */
  #heard = 0

  get heard(): number {
    return this.#heard
  }

  get(key: string): Standing | undefined {
    return this.#standings.get(key)
  }

  of(key: string): Standing {
    let standing = this.#standings.get(key)
    if (!standing) {
      standing = new Standing()
      this.#standings.set(key, standing)
    }
    return standing
  }

  /**
   * @param heardBefore what `heard` was when the call was sent
   * @returns for each rule, whether nothing is known to have been spent since
   */
  hear({ rules }: DecisionRequest, decision: Decision, sentAtMs: number, heardBefore: number): boolean[] {
    const { granted, nowMs } = decision
    const heardAs = ++this.#heard
    return rules.map(({ key }, index) => {
      const usage = decision.usage[index] ?? []
      return usage.length === 0 || this.of(key).hear({ granted, nowMs, usage, heardBefore, sentAtMs }, heardAs)
    })
  }

  /** Something other than a decision has changed these keys: nothing heard or asked before counts. */
  forget(keys: readonly string[]): void {
    const heardAs = ++this.#heard
    for (const key of keys) this.of(key).doubt(heardAs)
  }

  /** A call has failed that may have charged. */
  doubt({ rules }: DecisionRequest): void {
    const heardAs = ++this.#heard
    for (const { key } of rules) this.#standings.get(key)?.doubt(heardAs)
  }
}
