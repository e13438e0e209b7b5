/** Counts what happens in this isolate, and sends it to the store. */
import { isChargedLater } from '../../core/algorithms/decide.ts'
import { isCharged } from '../../core/engine/engine.ts'
import type { MirrorCount, MirrorWatch } from '../../core/engine/stages/mirror.ts'
import { decorate, type StageWatch } from '../../core/engine/stages/stage.ts'
import { ACTIONS, type RequestCharge, type StoreCharge } from '../../core/model/charge.ts'
import type { UntoldReason } from '../../core/model/cost.ts'
import type { RequestPolicy } from '../../core/model/policy.ts'
import { type Store, StoreError } from '../../core/model/store.ts'
import type { CallContext } from '../../core/runtime/call-context.ts'
import { drawNumber } from '../../core/runtime/hash.ts'
import type { Log } from '../../core/runtime/log.ts'
import { type Flush, findPeriodStart, type StatisticsStore } from '../../core/store/counters.ts'
import type { Observed, Observer } from '../../http/response/exchange.ts'
import type { LabelReader } from './label.ts'
import { COUNT_NAMES } from './metrics.ts'
import { Minute } from './minute.ts'
import { describeRequest, type Recent } from './recent.ts'

type RecordingContext = Pick<CallContext, 'waitUntil'>

export interface RecorderOptions {
  readonly counters: Pick<StatisticsStore, 'add'>
  readonly readLabel: LabelReader | undefined
  /** Keeps the last refusals and failures, too. */
  readonly keepsRecent: boolean
  readonly now: () => number
  readonly wait: (ms: number) => Promise<unknown>
  readonly log: Log
}

const NOTHING_KNOWN = { method: null, route: null, policy: null, digest: null, rule: null, country: null }

/** An isolate sends what it has counted at most this often. */
const FLUSH_INTERVAL_MS = 20_000
/** A failed flush is tried once more by the same request, which the platform ends 30 s after its response. */
const RETRY_AFTER_MS = 2_000
/** A request that is so late to send was ended by the platform. */
const LOST_AFTER_MS = 20_000
/** The store knows a flush that it has added for this time after it was first sent. */
const KNOWN_FOR_MS = 3_600_000

/**
 * Counts requests in memory, and lets one of them send the counts every 20 seconds. On Workers no request may await a
 * promise of another, so a flush is plain data that any request can send. One that may have been added, or not, is sent
 * again unchanged until the store confirms it: it counts once.
 */
export class Recorder implements Observer, StageWatch, MirrorWatch {
  readonly #options: RecorderOptions
  /** Drawn with the first flush: Workers have no randomness while they start. */
  #source: string | undefined
  #number = 0
  /** Minutes that are in no flush yet, by their start; nearly always one. */
  #minutes = new Map<number, Minute>()
  /** Units by policy that are still to be deducted. */
  readonly #givenBack = new Map<string, number>()
  #unsent: { readonly flush: Flush; readonly sinceMs: number } | undefined
  /** Some request sends before this. */
  #scheduledUntilMs = Number.NEGATIVE_INFINITY
  /** Some request is sending until this time; then another may take its turn. */
  #turn: { readonly untilMs: number } | undefined

  constructor(options: RecorderOptions) {
    this.#options = options
  }

  onDecided(observed: Observed, context: RecordingContext): void {
    const minute = this.#scheduleMinute(context)
    this.#label(minute, minute.addDecided(observed), observed, context)
    if (observed.verdict.outcome !== 'admitted') this.#keep(minute, () => describeRequest(observed))
  }

  /** A caller's token is verified for a label once a minute at most, however much it floods. */
  #label({ refused }: Minute, names: readonly string[], { request }: Observed, context: RecordingContext): void {
    const unlabelled = names.filter((name) => !refused.hasLabel(name))
    if (unlabelled.length === 0) return
    const label = this.#options.readLabel?.(request, context)
    if (label instanceof Promise) {
      refused.label(unlabelled, '')
      context.waitUntil(label.then((text) => text !== undefined && refused.label(unlabelled, text)))
    } else if (label !== undefined) refused.label(unlabelled, label)
  }

  onAnswered(observed: Observed, status: number, context: RecordingContext): void {
    if (status < 500) return
    // Scheduled again: what was counted of the request before may have been sent meanwhile.
    const minute = this.#scheduleMinute(context)
    minute.add(COUNT_NAMES.upstream5xx)
    this.#keep(minute, () => describeRequest(observed, status))
  }

  onUndecided(outcome: 'bad_request' | 'failed', context: RecordingContext): void {
    const minute = this.#scheduleMinute(context)
    minute.add(COUNT_NAMES.requests[outcome])
    this.#keep(minute, () => ({ ...NOTHING_KNOWN, outcome, status: outcome === 'failed' ? 500 : null }))
  }

  #keep({ recent }: Minute, describe: () => Omit<Recent, 'atMs'>): void {
    if (this.#options.keepsRecent) recent.add(this.#options.now(), describe())
  }

  onAvoided(by: keyof typeof COUNT_NAMES.avoided): void {
    this.#findMinute().add(COUNT_NAMES.avoided[by])
  }

  onUntold(policy: string, reason: UntoldReason): void {
    this.#findMinute().add(COUNT_NAMES.untold(policy, reason))
  }

  onLeased(permits: number): void {
    this.#findMinute().add(COUNT_NAMES.permitsLeased, permits)
  }

  onMirrored(what: MirrorCount): void {
    this.#findMinute().add(COUNT_NAMES.mirror(what))
  }

  /** Times the decisions of a store, and counts the units that it charges. */
  withTiming(store: Store): Store {
    const { now } = this.#options
    return decorate(store, {
      decide: async (request, context) => {
        const sentAtMs = now()
        try {
          const decision = await store.decide(request, context)
          this.#findMinute().addStoreAnswer(now() - sentAtMs)
          for (const [index, charge] of request.charges.entries()) {
            const isTaken = isCharged(decision, index) && !isChargedLater(charge)
            const { charges, mayRefuse } = ACTIONS[request.action]
            if (charges && (isTaken || !mayRefuse)) this.#addUnits(charge, decision.granted * charge.cost)
          }
          return decision
        } catch (error) {
          this.#findMinute().addStoreFailure()
          throw error
        }
      },
      settle: async (differences, chargedAtMs) => {
        await store.settle(differences, chargedAtMs)
        for (const { charge, units } of differences) this.#addUnits(charge, units)
      },
    })
  }

  /** Units that were given back are deducted from what is counted next, so that no sum ever falls. */
  #addUnits(charge: StoreCharge, units: number): void {
    if (!hasCosts(charge)) return
    const { name } = charge.policy
    const sum = units - (this.#givenBack.get(name) ?? 0)
    this.#givenBack.set(name, Math.max(0, -sum))
    this.#findMinute().add(COUNT_NAMES.units(name), sum)
  }

  /** The request sees to it that the minute is sent. */
  #scheduleMinute(context: RecordingContext): Minute {
    const nowMs = this.#options.now()
    this.#schedule(nowMs, context)
    return this.#findMinute(nowMs)
  }

  #findMinute(nowMs = this.#options.now()): Minute {
    const startMs = findPeriodStart('minute', nowMs)
    const known = this.#minutes.get(startMs)
    if (known) return known
    const minute = new Minute(startMs)
    this.#minutes.set(startMs, minute)
    return minute
  }

  #schedule(nowMs: number, context: RecordingContext): void {
    const remainingMs = this.#scheduledUntilMs - nowMs
    // More than there can be: the clock has stepped back.
    if (remainingMs > 0 && remainingMs <= FLUSH_INTERVAL_MS + LOST_AFTER_MS) return
    this.#scheduledUntilMs = nowMs + FLUSH_INTERVAL_MS + LOST_AFTER_MS
    context.waitUntil(this.#flushLater())
  }

  async #flushLater(): Promise<void> {
    const { wait } = this.#options
    await wait(FLUSH_INTERVAL_MS)
    if (await this.#flush()) return
    await wait(RETRY_AFTER_MS)
    await this.#flush()
  }

  /** @returns whether all is sent that was counted before */
  async #flush(): Promise<boolean> {
    const nowMs = this.#options.now()
    // What is counted from here on is for the next one to send.
    this.#scheduledUntilMs = Number.NEGATIVE_INFINITY
    const { untilMs = nowMs } = this.#turn ?? {}
    if (nowMs < untilMs && untilMs <= nowMs + LOST_AFTER_MS) return false
    const turn = { untilMs: nowMs + LOST_AFTER_MS }
    this.#turn = turn
    try {
      // First what had failed before, then what is new.
      await this.#send()
      if (turn === this.#turn) {
        this.#freeze()
        await this.#send()
      }
      return true
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
      const requests = this.#unsent ? countRequests(this.#unsent.flush) : 0
      this.#options.log('warn', { event: 'statistics_send_failed', message: error.message, requests })
      return false
    } finally {
      if (turn === this.#turn) this.#turn = undefined
    }
  }

  #freeze(): void {
    const minutes = Array.from(this.#minutes.values(), (minute) => minute.toPeriod())
    if (minutes.length === 0) return
    this.#minutes.clear()
    this.#source ??= drawNumber().toString(36)
    const flush = { source: this.#source, number: ++this.#number, minutes }
    this.#unsent = { flush, sinceMs: this.#options.now() }
  }

  async #send(): Promise<void> {
    if (!this.#unsent) return
    const { flush, sinceMs } = this.#unsent
    const ageMs = this.#options.now() - sinceMs
    if (ageMs < KNOWN_FOR_MS) await this.#options.counters.add(flush)
    // It may have been added when it was sent first, and would then be added twice.
    else this.#options.log('error', { event: 'statistics_lost', requests: countRequests(flush) })
    // Meanwhile another request may have sent it, and the next one.
    if (this.#unsent?.flush === flush) this.#unsent = undefined
  }
}

/** Tests for the charge of a policy of the configuration whose requests do not all cost one unit. */
function hasCosts(charge: StoreCharge & { readonly policy?: object }): charge is RequestCharge {
  const { cost, actualCost }: Partial<RequestPolicy> = charge.policy ?? {}
  return cost !== undefined && (actualCost !== undefined || cost.kind !== 'fixed' || cost.units > 1)
}

function countRequests({ minutes }: Flush): number {
  let sum = 0
  for (const { counts } of minutes) {
    for (const name of Object.values(COUNT_NAMES.requests)) sum += counts.get(name) ?? 0
  }
  return sum
}
