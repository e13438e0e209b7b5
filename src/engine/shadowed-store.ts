import { MAX_AFTER } from '../algorithms/read-block.ts'
import type { Decision, DecisionRequest, Rule } from '../model/charge.ts'
import type { AlgorithmName, Block } from '../model/limits.ts'
import { type Difference, type Store, StoreError } from '../model/store.ts'
import type { CallContext } from '../runtime/call-context.ts'
import { Deadlines } from '../runtime/deadlines.ts'
import type { Log } from '../runtime/log.ts'
import { StoreAround } from '../store/store-around.ts'
import { isCharged } from './decider.ts'
import { GuardedStore } from './guarded-store.ts'

export interface ShadowedStoreOptions {
  /** Decides. */
  readonly store: Store
  /** Is charged what that one has charged. */
  readonly shadow: Store
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number
  /** Deadline of a decision, in milliseconds. */
  readonly timeoutMs: number
  readonly log: Log
}

/** What was heard so far of the store that is charged beside. */
export interface ShadowStoreCounts {
  /** Decisions of which both have said what they would do. */
  readonly decisions: number
  /** Those that it would have refused, and that were admitted … */
  readonly refusedByShadowOnly: number
  /** … and those that it would have admitted, and that were refused. */
  readonly refusedByStoreOnly: number
  /** Calls that got no usable answer, or could not be sent in time: what they were to charge may be missing there. */
  readonly failures: number
}

const NONE: ShadowStoreCounts = { decisions: 0, refusedByShadowOnly: 0, refusedByStoreOnly: 0, failures: 0 }
const LOG_INTERVAL_MS = 60_000

/** A charge that was not sent, as the shadow is left alone for a moment, is tried again after about so long … */
const PAUSE_MS = 250
/** … and for five seconds: a Worker is stopped 30 s after its response. */
const MAX_ATTEMPTS = 20
/** Charges that may wait at once, a few MB. */
const MAX_KEPT = 1_000

/** Refusals are counted beside, but who is blocked is up to the store: an earlier block would not be prolonged by its own. */
const UNBLOCKED: Block = { blockMs: 1, after: MAX_AFTER }

/** What one decision has charged beside. */
interface Charged {
  /** When, by the shadow's clock; undefined if that is not known. */
  readonly atMs: Promise<number | undefined>
  readonly context: CallContext | undefined
}

/**
 * A store, and beside it another one that is to take its place: it is charged what the first has charged, so that its
 * windows are full when it does, and blocks whom the first has blocked. It refuses nothing, nobody waits for it, and its
 * failures change nothing. What differs is counted.
 *
 * `revoke` is passed on alone: where a decision got no answer, nothing was charged beside, and what could not be released
 * was released there before.
 */
export class ShadowedStore extends StoreAround {
  readonly #shadow: Store
  /** The shadow, left alone while it keeps failing. */
  readonly #guarded: GuardedStore
  readonly #now: () => number
  readonly #log: Log
  /** By the rules of the request, which no other request has. */
  readonly #charged = new WeakMap<Rule, Charged>()
  #counts = NONE
  /** Charges that wait. */
  #kept = 0
  #toldMs: number
  #told = NONE

  constructor({ store, shadow, now, timeoutMs, log }: ShadowedStoreOptions) {
    super(store)
    const logOfShadow: Log = (level, { event, ...fields }) => log(level, { event: `shadow_${event}`, ...fields })
    this.#shadow = shadow
    this.#guarded = new GuardedStore({ store: shadow, now, timeoutMs, log: logOfShadow })
    this.#now = now
    this.#log = log
    this.#toldMs = now()
  }

  get counts(): ShadowStoreCounts {
    return this.#counts
  }

  override async decide(request: DecisionRequest, context?: CallContext): Promise<Decision> {
    const decision = await this.store.decide(request, context)
    if (decision.granted > 0 && request.mode !== 'peek') this.#charge(request, decision, context)
    else if (request.mode !== 'peek') this.#goOn(this.#refuse(request, decision, context), context)
    return decision
  }

  override release(rules: readonly Rule[]): Promise<void> {
    this.#beside(rules, (own, atMs) =>
      // A charge without an answer may still be on its way.
      atMs === undefined
        ? this.#guarded.revoke(own.map((rule) => ({ rule, isKnown: false })))
        : this.#guarded.release(own),
    )
    return this.store.release(rules)
  }

  override renew(rules: readonly Rule[]): Promise<void> {
    this.#beside(rules, (own) => this.#guarded.renew(own))
    return this.store.renew(rules)
  }

  override settle(differences: readonly Difference[], chargedAtMs: number): Promise<void> {
    const units = new Map(differences.map(({ rule, units }) => [rule, units]))
    this.#beside([...units.keys()], async (own, atMs) => {
      if (atMs === undefined) return
      await this.#guarded.settle(
        own.map((rule) => ({ rule, units: units.get(rule) ?? 0 })),
        atMs,
      )
    })
    return this.store.settle(differences, chargedAtMs)
  }

  override async forget(keys: readonly string[]): Promise<void> {
    const beside = this.#guarded.forget(keys).catch((error) => this.#fail(error))
    await this.store.forget(keys)
    await beside
  }

  override learn(algorithms: Iterable<AlgorithmName>): void {
    const all = [...algorithms]
    super.learn(all)
    this.#shadow.learn?.(all)
  }

  /** Charges beside what was charged, whatever is left there, and hears how that stood before. */
  #charge(request: DecisionRequest, decision: Decision, context: CallContext | undefined): void {
    const { mode, leaseMs } = request
    const rules = request.rules.filter((_, index) => wasCharged(request, decision, index))
    if (rules.length === 0) return
    const asked: DecisionRequest = {
      mode: 'charge',
      permits: decision.granted,
      // Who is new has been found out: the shadow may know others.
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

  /** Hears beside whether it would have refused as well, then lets it remember what the refusal leads to. */
  async #refuse(request: DecisionRequest, decision: Decision, context: CallContext | undefined): Promise<void> {
    const refusedAtMs = this.#now()
    try {
      await this.#compareRefusal(request, context)
    } finally {
      const rules = penaltiesOf(request, decision, this.#now() - refusedAtMs)
      if (rules.length > 0) await this.#send({ mode: 'all', permits: 1, rules }, context)
    }
  }

  /** Changes what the shadow counts: a little later, if it is left alone now. What may have run is not repeated. */
  async #send(asked: DecisionRequest, context: CallContext | undefined): Promise<Decision> {
    try {
      return await this.#guarded.decide(asked, besideOf(context))
    } catch (error) {
      if (!isUnsent(error) || this.#kept >= MAX_KEPT) throw error
    }
    this.#kept++
    try {
      return await this.#sendLater(asked, context)
    } finally {
      this.#kept--
    }
  }

  /** Each request waits for its own: on Workers, none may await a promise of another. */
  async #sendLater(asked: DecisionRequest, context: CallContext | undefined): Promise<Decision> {
    for (let attempt = 1; ; attempt++) {
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS * (0.75 + Math.random() / 2)))
      try {
        return await this.#guarded.decide(asked, besideOf(context))
      } catch (error) {
        if (!isUnsent(error) || attempt === MAX_ATTEMPTS) throw error
      }
    }
  }

  async #compareRefusal(request: DecisionRequest, context: CallContext | undefined): Promise<void> {
    const permits = request.mode === 'partial' ? 1 : request.permits
    const { granted } = await this.#guarded.decide({ mode: 'peek', permits, rules: request.rules }, besideOf(context))
    this.#count({ decisions: 1, refusedByStoreOnly: Number(granted > 0) })
  }

  /** Does beside what is done with rules that were charged there, each as soon as that is known. */
  #beside(rules: readonly Rule[], work: (rules: Rule[], atMs: number | undefined) => Promise<void>): void {
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

  #count(more: Partial<ShadowStoreCounts>): void {
    this.#counts = combined(this.#counts, more, 1)
    const nowMs = this.#now()
    if (nowMs - this.#toldMs < LOG_INTERVAL_MS) return
    this.#log('info', { event: 'shadow_store', ...combined(this.#counts, this.#told, -1) })
    this.#told = this.#counts
    this.#toldMs = nowMs
  }
}

function isUnsent(error: unknown): boolean {
  return error instanceof StoreError && !error.mayHaveRun
}

/** Not those that only say how they stand: failures are charged when they have happened, newcomers' rules for a newcomer. */
function wasCharged({ mode, rules }: DecisionRequest, decision: Decision, index: number): boolean {
  const { counts = 'requests', tiers } = rules[index] as Rule
  if (mode === 'charge') return true
  if (counts === 'failures' || !isCharged(decision, index)) return false
  // Of a rule for newcomers that did not apply, nothing is used.
  return counts !== 'identities' || !!decision.usage[index]?.some(({ remaining }, at) => remaining !== tiers[at]?.limit)
}

/**
 * What makes the shadow remember a refusal: of each rule that blocks who is refused, a cost that nothing can ever admit.
 * @param elapsedMs since the refusal
 */
function penaltiesOf({ mode, permits, rules }: DecisionRequest, decision: Decision, elapsedMs: number): Rule[] {
  // It may have been refused for a moment only, which leads to nothing. If a block is running, the next refusal tells.
  if (decision.isProvisional) return []
  return rules.flatMap((rule, index) => {
    const usage = decision.usage[index] ?? []
    const wanted = rule.cost * (mode === 'partial' ? 1 : permits)
    if (!rule.block || !rule.enforced || !usage.some(({ retryAfterMs }) => retryAfterMs > 0)) return []
    const blockedMs = usage[0]?.blockedMs
    const isRefusal = usage.some(({ remaining }) => remaining < wanted)
    if (blockedMs === undefined && !isRefusal) return []
    const block = blockedMs === undefined ? UNBLOCKED : { blockMs: Math.max(1, blockedMs - elapsedMs), after: 1 }
    return [{ ...rule, block, cost: Number.MAX_SAFE_INTEGER, reserved: 0, counts: 'requests' }]
  })
}

/** Its calls have deadlines of their own: those of the request end with its response. */
function besideOf(context: CallContext | undefined): CallContext | undefined {
  return context && { waitUntil: (work) => context.waitUntil(work), deadlines: Deadlines.ofOne() }
}

function combined(one: ShadowStoreCounts, other: Partial<ShadowStoreCounts>, sign: 1 | -1): ShadowStoreCounts {
  return {
    decisions: one.decisions + sign * (other.decisions ?? 0),
    refusedByShadowOnly: one.refusedByShadowOnly + sign * (other.refusedByShadowOnly ?? 0),
    refusedByStoreOnly: one.refusedByStoreOnly + sign * (other.refusedByStoreOnly ?? 0),
    failures: one.failures + sign * (other.failures ?? 0),
  }
}
