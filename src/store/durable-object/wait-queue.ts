import type { MachineState } from './machine-state.ts'
import { countWanted, type ObjectVote, type PreparedCharge } from './objects.ts'

export interface Answer {
  readonly reservation: PreparedCharge
  readonly vote: ObjectVote
}

interface Waiting {
  readonly reservation: PreparedCharge
  sinceMs: number
  /** It is refused then, if nothing has happened. */
  untilMs: number
}

/** Open charges that, given back, would let a reservation fit. */
interface Hope {
  readonly units: number
  /** Milliseconds for which it is worth waiting. */
  readonly forMs: number
}

/**
 * No more than this wait for each unit that may be given back. Later ones are refused at once: they would get it only if
 * all of these were refused elsewhere. A flood thus waits for nothing.
 */
const MAX_PER_UNIT = 8
/** All that wait are decided again whenever one decision ends … */
const MAX_WAITING = 200
/** … each by looking at every open charge: in all so many looks. */
const MAX_LOOKS = 20_000

/** Reservations that are refused only because of charges that may still be given back. Their answers are held back. */
export class WaitQueue {
  #waiting: Waiting[] = []

  add(reservation: PreparedCharge, vote: ObjectVote, open: MachineState['open'], nowMs: number): boolean {
    const hope = findHope(reservation, vote, open, nowMs, nowMs)
    const maxWaiting = Math.min(MAX_WAITING, MAX_LOOKS / open.size)
    if (!hope || this.#waiting.length >= maxWaiting || this.#units >= MAX_PER_UNIT * hope.units) return false
    this.#waiting.push({ reservation, sinceMs: nowMs, untilMs: nowMs + hope.forMs })
    return true
  }

  /**
   * Decides again, in the order of arrival, and lets those go that need not wait any longer.
   * @param decide without a charge if it refuses
   */
  leave(
    decide: (reservation: PreparedCharge) => ObjectVote,
    open: MachineState['open'],
    nowMs: number,
    mayWait: (reservation: PreparedCharge) => boolean = () => true,
  ): Answer[] {
    const answers: Answer[] = []
    this.#waiting = this.#waiting.filter((waiting) => {
      const { reservation, sinceMs } = waiting
      const vote = decide(reservation)
      const hope = mayWait(reservation) ? findHope(reservation, vote, open, sinceMs, nowMs) : undefined
      if (hope) waiting.untilMs = nowMs + hope.forMs
      else answers.push({ reservation, vote })
      return hope !== undefined
    })
    return answers
  }

  /** The clock was set back: all have waited for longer than it shows. */
  ageBy(ms: number): void {
    for (const waiting of this.#waiting) {
      waiting.sinceMs -= ms
      waiting.untilMs -= ms
    }
  }

  get reservations(): readonly PreparedCharge[] {
    return this.#waiting.map(({ reservation }) => reservation)
  }

  get untilMs(): number | undefined {
    return this.#waiting.length > 0 ? Math.min(...this.#waiting.map(({ untilMs }) => untilMs)) : undefined
  }

  get #units(): number {
    return this.#waiting.reduce(
      (units, { reservation }) => units + countWanted(reservation) * reservation.charge.cost,
      0,
    )
  }
}

function findHope(
  reservation: PreparedCharge,
  vote: ObjectVote,
  opens: MachineState['open'],
  sinceMs: number,
  nowMs: number,
): Hope | undefined {
  const { action, charge, shared, patienceMs = 0 } = reservation
  const wanted = countWanted(reservation)
  const isRefused = charge.mode === 'enforce' && (action === 'take' || action === 'take-up-to') && vote.fitting < wanted
  const waitedMs = nowMs - sinceMs
  if (!isRefused || !vote.isProvisional || waitedMs >= patienceMs) return undefined
  let [units, forMs] = [0, 0]
  for (const [id, { atMs, grants, permits, cost }] of opens) {
    // Two decisions may wait for each other, each at the object of one charge: the one with the higher number gives in
    // first, and the other gets what that one had.
    const ownPatienceMs = shared && id < shared.id ? patienceMs / 2 : patienceMs
    // Older ones are those of isolates that have died, or whose messages were lost.
    const leftMs = atMs + ownPatienceMs - nowMs
    if (grants > 0 || leftMs <= 0) continue
    units += permits * cost
    forMs = Math.max(forMs, leftMs)
  }
  const wantedUnits = wanted * charge.cost + charge.reserved
  if (units === 0 || vote.usage.some(({ remaining }) => remaining + units < wantedUnits)) return undefined
  return { units, forMs: Math.min(forMs, patienceMs - waitedMs) }
}
