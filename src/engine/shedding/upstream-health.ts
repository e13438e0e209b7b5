import type { Priority } from '../../model/policy.ts'
import { CallerSignals } from './caller-signs.ts'
import { advance, initialShedState, type ShedState, shedShare } from './shed-level.ts'

/** What this isolate sees of the upstream, and whom it refuses to protect it. */
export class UpstreamHealth {
  readonly #now: () => number
  readonly #signs: CallerSignals
  #state: ShedState
  /** For each class, the part of a request that is still to be shed, so that shares do not depend on chance. */
  readonly #carry: Record<Priority, number> = { critical: 0, default: 0, sheddable: 0 }

  /** @param now milliseconds since the Unix epoch, never less than before */
  constructor(now: () => number) {
    this.#now = now
    const nowMs = now()
    this.#signs = new CallerSignals(nowMs)
    this.#state = initialShedState(nowMs)
  }

  /** 0 (nothing is shed) to 2 (all but what is critical). */
  get level(): number {
    return this.#state.level
  }

  /** Whether to refuse the next request of this class. */
  sheds(priority: Priority): boolean {
    this.#advance()
    const carry = this.#carry[priority] + shedShare(this.#state, priority)
    const isShed = carry >= 1
    this.#carry[priority] = isShed ? carry - 1 : carry
    return isShed
  }

  /**
   * A request goes to the upstream.
   * @param caller whose it is: what one caller cannot change at will, such as its address
   * @returns to be called once, when its answer has begun or failed
   */
  begin(caller: string): (isOverload: boolean) => void {
    const end = this.#signs.begin(caller, this.#advance())
    return (isOverload) => end(this.#advance(), isOverload)
  }

  #advance(): number {
    const nowMs = this.#now()
    this.#state = advance(this.#state, this.#signs, nowMs)
    return nowMs
  }
}
