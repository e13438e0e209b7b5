import { MAX_AFTER } from '../algorithms/read-limits.ts'
import type { Decision, DecisionRequest, StoreCharge } from '../model/charge.ts'
import type { AlgorithmName, PenaltySettings } from '../model/limits.ts'
import { type Adjustment, type Store, StoreError } from '../model/store.ts'
import type { CallContext } from '../runtime/call-context.ts'
import { Deadlines } from '../runtime/deadlines.ts'
import type { Log } from '../runtime/log.ts'
import { CircuitBreaker, withBreaker } from './circuit-breaker.ts'
import { isCharged } from './engine.ts'
import { decorate, type Stage } from './stage.ts'

export interface MirrorOptions {
  /** The store that receives the charges. */
  readonly store: Store
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number
  /** Deadline of a decision, in milliseconds. */
  readonly timeoutMs: number
  readonly log: Log
}

/** How the decisions of a mirror compare with those of the store. */
export interface MirrorCounts {
  /** Decisions that both have made. */
  readonly decisions: number
  /** Those that the mirror would have refused, and that were admitted. */
  readonly refusedByShadowOnly: number
  /** Those that the mirror would have admitted, and that were refused. */
  readonly refusedByStoreOnly: number
  /** Calls that got no usable answer, or could not be sent in time: what they were to charge may be missing there. */
  readonly failures: number
}

const NONE: MirrorCounts = { decisions: 0, refusedByShadowOnly: 0, refusedByStoreOnly: 0, failures: 0 }
const LOG_INTERVAL_MS = 60_000

/** A charge that could not be sent because the circuit is open is tried again after about this long. */
const PAUSE_MS = 250
/** Five seconds of pauses: a Worker is stopped 30 s after its response. */
const MAX_ATTEMPTS = 20
/** Charges that may wait at once, a few MB. */
const MAX_WAITING = 1_000

/** Refusals are mirrored, but penalties are up to the store: the mirror's own would end at another time. */
const NO_PENALTY: PenaltySettings = { blockMs: 1, after: MAX_AFTER }

/** A charge that was mirrored. */
interface MirroredCharge {
  /** When it was charged, by the mirror's clock; undefined if that is not known. */
  readonly atMs: Promise<number | undefined>
  readonly context: CallContext | undefined
}

/**
 * Charges a second store, which is to take the place of the first, with what the first has charged, so that its windows
 * are full when it does; it also gets the penalties. The mirror refuses nothing, nobody waits for it, and its failures
 * change nothing. Decisions that differ are counted.
 *
 * `revoke` goes to the store alone: where a decision got no answer, nothing was mirrored, and what could not be released
 * was released in the mirror before.
 */
export function withMirror(mirror: Mirror): Stage {
  return (store) =>
    decorate(store, {
      async decide(request, context) {
        const decision = await store.decide(request, context)
        if (request.mode !== 'peek') mirror.followDecision(request, decision, context)
        return decision
      },
      release(rules) {
        mirror.release(rules)
        return store.release(rules)
      },
      renew(rules) {
        mirror.renew(rules)
        return store.renew(rules)
      },
      settle(differences, chargedAtMs) {
        mirror.settle(differences)
        return store.settle(differences, chargedAtMs)
      },
      async forget(keys) {
        const mirrored = mirror.forget(keys)
        await store.forget(keys)
        await mirrored
      },
      learn(algorithms) {
        const all = [...algorithms]
        store.learn?.(all)
        mirror.learn(all)
      },
    })
}

export class Mirror {
  readonly #store: Store
  readonly #now: () => number
  readonly #log: Log
  /** By the rules of the request, which no other request has. */
  readonly #charged = new WeakMap<StoreCharge, MirroredCharge>()
  #counts = NONE
  #waiting = 0
  #loggedAtMs: number
  #logged = NONE

  constructor({ store, now, timeoutMs, log }: MirrorOptions) {
    const logMirror: Log = (level, { event, ...fields }) => log(level, { event: `shadow_${event}`, ...fields })
    const breaker = new CircuitBreaker({ now, random: Math.random, probeTimeoutMs: 2 * timeoutMs })
    this.#store = withBreaker({ breaker, now, log: logMirror })(store)
    this.#now = now
    this.#log = log
    this.#loggedAtMs = now()
  }

  get counts(): MirrorCounts {
    return this.#counts
  }

  followDecision(request: DecisionRequest, decision: Decision, context: CallContext | undefined): void {
    if (decision.granted > 0) this.#charge(request, decision, context)
    else this.#goOn(this.#refuse(request, decision, context), context)
  }

  release(rules: readonly StoreCharge[]): void {
    this.#followUp(rules, (own, atMs) =>
      // A charge without an answer may still be on its way.
      atMs === undefined ? this.#store.revoke(own.map((rule) => ({ rule, isKnown: false }))) : this.#store.release(own),
    )
  }

  renew(rules: readonly StoreCharge[]): void {
    this.#followUp(rules, (own) => this.#store.renew(own))
  }

  settle(differences: readonly Adjustment[]): void {
    const units = new Map(differences.map(({ rule, units }) => [rule, units]))
    this.#followUp([...units.keys()], async (own, atMs) => {
      if (atMs === undefined) return
      await this.#store.settle(
        own.map((rule) => ({ rule, units: units.get(rule) ?? 0 })),
        atMs,
      )
    })
  }

  forget(keys: readonly string[]): Promise<void> {
    return this.#store.forget(keys).catch((error) => this.#fail(error))
  }

  learn(algorithms: readonly AlgorithmName[]): void {
    this.#store.learn?.(algorithms)
  }

  /** Mirrors a charge, whatever is left there, and compares how that stood before. */
  #charge(request: DecisionRequest, decision: Decision, context: CallContext | undefined): void {
    const { mode, leaseMs } = request
    const rules = request.rules.filter((_, index) => wasCharged(request, decision, index))
    if (rules.length === 0) return
    const asked: DecisionRequest = {
      mode: 'charge',
      permits: decision.granted,
      // Who is new has been found out: the mirror may know others.
      rules: rules.map((rule) => (rule.counts === 'identities' ? { ...rule, counts: 'requests' } : rule)),
      ...(leaseMs !== undefined && { leaseMs }),
    }
    const answered = this.#send(asked, context)
    const atMs = answered.then(
      ({ nowMs }) => nowMs,
      () => undefined,
    )
    const charged = { atMs, context }
    for (const rule of rules) if (rule.slot !== undefined || rule.isSettled) this.#charged.set(rule, charged)
    this.#goOn(
      answered.then(({ usage }) => {
        // What has happened already is no decision.
        if (mode === 'charge') return
        const isRefused = rules.some(({ enforced }, index) => {
          return enforced && usage[index]?.some(({ retryAfterMs }) => retryAfterMs > 0)
        })
        this.#count({ decisions: 1, refusedByShadowOnly: Number(isRefused) })
      }),
      context,
    )
  }

  /** Compares a refusal, then lets the mirror remember what it leads to. */
  async #refuse(request: DecisionRequest, decision: Decision, context: CallContext | undefined): Promise<void> {
    const refusedAtMs = this.#now()
    try {
      await this.#compareRefusal(request, context)
    } finally {
      const rules = createPenaltyCharges(request, decision, this.#now() - refusedAtMs)
      if (rules.length > 0) await this.#send({ mode: 'all', permits: 1, rules }, context)
    }
  }

  /** Sends a charge: a little later, if the circuit is open. What may have run is not repeated. */
  async #send(asked: DecisionRequest, context: CallContext | undefined): Promise<Decision> {
    try {
      return await this.#store.decide(asked, withOwnDeadlines(context))
    } catch (error) {
      if (!isUnsent(error) || this.#waiting >= MAX_WAITING) throw error
    }
    this.#waiting++
    try {
      return await this.#sendLater(asked, context)
    } finally {
      this.#waiting--
    }
  }

  /** Each request waits for its own: on Workers, none may await a promise of another. */
  async #sendLater(asked: DecisionRequest, context: CallContext | undefined): Promise<Decision> {
    for (let attempt = 1; ; attempt++) {
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS * (0.75 + Math.random() / 2)))
      try {
        return await this.#store.decide(asked, withOwnDeadlines(context))
      } catch (error) {
        if (!isUnsent(error) || attempt === MAX_ATTEMPTS) throw error
      }
    }
  }

  async #compareRefusal(request: DecisionRequest, context: CallContext | undefined): Promise<void> {
    const permits = request.mode === 'partial' ? 1 : request.permits
    const { granted } = await this.#store.decide(
      { mode: 'peek', permits, rules: request.rules },
      withOwnDeadlines(context),
    )
    this.#count({ decisions: 1, refusedByStoreOnly: Number(granted > 0) })
  }

  /** Does with rules that were mirrored what is done with them in the store, each as soon as that is known. */
  #followUp(
    rules: readonly StoreCharge[],
    work: (rules: StoreCharge[], atMs: number | undefined) => Promise<void>,
  ): void {
    for (const [charged, own] of Map.groupBy(rules, (rule) => this.#charged.get(rule))) {
      if (charged)
        this.#goOn(
          charged.atMs.then((atMs) => work(own, atMs)),
          charged.context,
        )
    }
  }

  #goOn(work: Promise<unknown>, context: CallContext | undefined): void {
    const done = work.catch((error) => this.#fail(error))
    if (context) context.waitUntil(done)
  }

  #fail(error: unknown): void {
    if (!(error instanceof StoreError)) throw error
    this.#count({ failures: 1 })
    this.#log('warn', { event: 'shadow_store_error', message: error.message })
  }

  #count(more: Partial<MirrorCounts>): void {
    this.#counts = combine(this.#counts, more, 1)
    const nowMs = this.#now()
    if (nowMs - this.#loggedAtMs < LOG_INTERVAL_MS) return
    this.#log('info', { event: 'shadow_store', ...combine(this.#counts, this.#logged, -1) })
    this.#logged = this.#counts
    this.#loggedAtMs = nowMs
  }
}

function isUnsent(error: unknown): boolean {
  return error instanceof StoreError && !error.mayHaveRun
}

/** Not those that only say how they stand: failures are charged when they have happened, newcomers' rules for a newcomer. */
function wasCharged({ mode, rules }: DecisionRequest, decision: Decision, index: number): boolean {
  const { counts = 'requests', tiers } = rules[index] as StoreCharge
  if (mode === 'charge') return true
  if (counts === 'failures' || !isCharged(decision, index)) return false
  // Of a rule for newcomers that did not apply, nothing is used.
  return counts !== 'identities' || !!decision.usage[index]?.some(({ remaining }, at) => remaining !== tiers[at]?.limit)
}

/**
 * What makes the mirror remember a refusal: of each rule that blocks who is refused, a cost that nothing can ever admit.
 * @param elapsedMs since the refusal
 */
function createPenaltyCharges(
  { mode, permits, rules }: DecisionRequest,
  decision: Decision,
  elapsedMs: number,
): StoreCharge[] {
  // It may have been refused for a moment only, which leads to nothing. If a block is running, the next refusal tells.
  if (decision.isProvisional) return []
  return rules.flatMap((rule, index) => {
    const usage = decision.usage[index] ?? []
    const wanted = rule.cost * (mode === 'partial' ? 1 : permits)
    if (!rule.block || !rule.enforced || !usage.some(({ retryAfterMs }) => retryAfterMs > 0)) return []
    const blockedMs = usage[0]?.blockedMs
    const isRefusal = usage.some(({ remaining }) => remaining < wanted)
    if (blockedMs === undefined && !isRefusal) return []
    const block = blockedMs === undefined ? NO_PENALTY : { blockMs: Math.max(1, blockedMs - elapsedMs), after: 1 }
    return [{ ...rule, block, cost: Number.MAX_SAFE_INTEGER, reserved: 0, counts: 'requests' }]
  })
}

/** Its calls have deadlines of their own: those of the request end with its response. */
function withOwnDeadlines(context: CallContext | undefined): CallContext | undefined {
  return context && { waitUntil: (work) => context.waitUntil(work), deadlines: Deadlines.ofOne() }
}

function combine(one: MirrorCounts, other: Partial<MirrorCounts>, sign: 1 | -1): MirrorCounts {
  return {
    decisions: one.decisions + sign * (other.decisions ?? 0),
    refusedByShadowOnly: one.refusedByShadowOnly + sign * (other.refusedByShadowOnly ?? 0),
    refusedByStoreOnly: one.refusedByStoreOnly + sign * (other.refusedByStoreOnly ?? 0),
    failures: one.failures + sign * (other.failures ?? 0),
  }
}
