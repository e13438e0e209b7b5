/** A limiter that follows the rules as operators write them. */
import type { RequestCharge } from '../../core/model/charge.ts'
import { StoreError } from '../../core/model/store.ts'
import type { Verdict } from '../../core/model/verdict.ts'
import { OptionError } from '../../core/options/option-error.ts'
import {
  type DocumentStore,
  isSameVersion,
  NO_DOCUMENT,
  type Revision,
  type StoredDocument,
} from '../../core/store/documents.ts'
import type { Exchange } from '../../http/request/received-request.ts'
import type { DecideOptions, RequestLimiter } from '../../http/request/request-limiter.ts'
import type { ActiveRules, RulesState } from './active-rules.ts'
import { type AppliedRules, type AppliedRulesOptions, applyNoRules, applyRules, readPath } from './applied-rules.ts'
import { NO_RULES, parseRules } from './document.ts'
import type { LocationCopy, RulesReading } from './location-copy.ts'

export interface LiveRulesEngineOptions extends AppliedRulesOptions {
  readonly documents: DocumentStore
  readonly auditLog: DocumentStore
  /** Undefined where nothing is shared by the isolates of a location. */
  readonly copy?: LocationCopy | undefined
  readonly now: () => number
}

const UNKNOWN: RulesState = { kind: 'unknown' }

type Received = Pick<Exchange, 'request' | 'context'>

/** Decides by the rules as they are written, which it reads between requests. */
export class LiveRulesEngine {
  readonly documents: DocumentStore
  readonly auditLog: DocumentStore
  readonly #options: LiveRulesEngineOptions
  #active: AppliedRules
  /** The newest rules, which may be invalid. */
  #newest: Revision | undefined
  /** When the last attempt to read the rules began. */
  #triedAtMs = Number.NEGATIVE_INFINITY
  /** When the attempt began that last succeeded. */
  #readAtMs: number | undefined
  /** Problem of the last attempt. */
  #error: StoreError | undefined
  /** State at the attempt that last succeeded. */
  #state: RulesState = { kind: 'deployed' }
  /** Attempts are numbered, so that an answer that comes late does not take the place of a newer one. */
  #attempts = 0
  #latestAnswer = 0
  /** How many had begun when the newest rules were found. */
  #attemptsBefore = 0

  constructor(options: LiveRulesEngineOptions) {
    this.documents = options.documents
    this.auditLog = options.auditLog
    this.#options = options
    this.#active = applyNoRules(options)
  }

  /** The rules that decide the next request, and how they relate to those in the store. */
  get active(): ActiveRules {
    const isUnknown = this.#error !== undefined || this.#readAtMs === undefined
    const { version, id, rules = NO_RULES, policies } = this.#active
    const known = { version, id, rules, policies, stored: this.#newest ?? NO_DOCUMENT, readAtMs: this.#readAtMs }
    return { ...(isUnknown ? UNKNOWN : this.#state), ...known }
  }

  /**
   * Reads the store at once, so that what an operator is told is what decides from then on.
   * @throws {StoreError} if it does not answer, and never did here
   */
  async look(): Promise<ActiveRules> {
    const nowMs = this.#options.now()
    await this.#read(nowMs, async () => ({ document: await this.documents.read(this.#newest), readAtMs: nowMs }))
    if (this.#readAtMs === undefined && this.#error) throw this.#error
    return this.active
  }

  async decide(exchange: Exchange, options?: DecideOptions): Promise<Verdict> {
    const { request, context } = exchange
    const nowMs = this.#options.now()
    const reading = this.#readIfDue(nowMs, exchange)
    if (reading) {
      // The rules are so old that a change may have been active elsewhere for a while.
      if (this.#mustWait(nowMs)) await reading
      else context.waitUntil(reading)
    }
    const { index, limiter } = this.#active
    const rules = index && (await index.match(request, nowMs, context))
    if (rules && 'outcome' in rules) return rules
    return limiter.decide(exchange, { ...options, rules })
  }

  async findCharges(exchange: Exchange, options?: DecideOptions): Promise<readonly RequestCharge[] | Verdict> {
    const { request, context } = exchange
    const nowMs = this.#options.now()
    await this.#readIfDue(nowMs, exchange)
    const { index, limiter } = this.#active
    const rules = await index?.match(request, nowMs, context)
    return rules && 'outcome' in rules ? rules : limiter.findCharges(exchange, { ...options, rules })
  }

  async readActivePolicies(received: Received): Promise<Pick<AppliedRules, 'policies' | 'edition'>> {
    await this.#readIfDue(this.#options.now(), received)
    return this.#active
  }

  decideCharges(...decision: Parameters<RequestLimiter['decideCharges']>): Promise<Verdict> {
    return this.#active.limiter.decideCharges(...decision)
  }

  /** @returns undefined if the rules need not be read yet */
  #readIfDue(nowMs: number, received: Received): Promise<void> | undefined {
    const { documents } = this
    const { copy, rules } = this.#options
    const ageMs = nowMs - this.#triedAtMs
    // A copy costs nothing, and is itself up to a refresh old.
    const everyMs = copy && !this.#error ? rules.refreshMs / 2 : rules.refreshMs
    // A clock may have been set back.
    const isDue = ageMs < 0 || ageMs >= everyMs || this.#mustWait(nowMs)
    if (!isDue) return undefined
    const reading = this.#read(nowMs, () => this.#find(nowMs, received))
    if (documents.afterRead) received.context.waitUntil(reading.then(() => documents.afterRead?.()))
    return reading
  }

  #mustWait(nowMs: number): boolean {
    const readAtMs = this.#readAtMs
    return !this.#error && (readAtMs === undefined || nowMs - readAtMs >= 2 * this.#options.rules.refreshMs)
  }

  /** Each request that waits reads by itself: on Workers, none may wait for another's. */
  async #read(nowMs: number, find: () => Promise<RulesReading>): Promise<void> {
    const attempt = ++this.#attempts
    this.#triedAtMs = nowMs
    try {
      const { document, readAtMs } = await find()
      if (attempt < this.#latestAnswer) return
      this.#latestAnswer = attempt
      this.#readAtMs = readAtMs
      this.#error = undefined
      // Of two attempts at once, the later one may have read before the other, or a copy.
      const isOld = attempt <= this.#attemptsBefore && document && document.version <= (this.#newest?.version ?? 0)
      if (document && !isOld) this.#update(document)
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
      if (attempt < this.#latestAnswer) return
      this.#error = error
      const { version } = this.#active
      this.#options.log('warn', { event: 'rules_read_failed', version, message: error.message })
    }
  }

  async #find(nowMs: number, received: Received): Promise<RulesReading> {
    const { copy } = this.#options
    if (copy) return copy.read(this.#newest, received)
    return { document: await this.documents.read(this.#newest), readAtMs: nowMs }
  }

  #update({ text, ...revision }: StoredDocument): void {
    const { version } = revision
    this.#attemptsBefore = this.#attempts
    const { log } = this.#options
    const activeVersion = this.#active.version
    const known = this.#newest
    if (version === 0 && activeVersion > 0) {
      // To end all rules, operators write an empty rule set. This is a database that was emptied, or that evicts.
      this.#newest = revision
      this.#state = { kind: 'lost' }
      log('error', { event: 'rules_lost', activeVersion })
    } else if (!isSameVersion(revision, known)) {
      // Each write makes a higher number: this one was made where the known ones were lost.
      if (known && version <= known.version) log('error', { event: 'rules_lost', activeVersion, version })
      this.#newest = revision
      this.#followRules(revision, text)
    }
  }

  /** Invalid rules leave the last valid ones active. */
  #followRules({ version, id }: Revision, text: string): void {
    const { log } = this.#options
    try {
      this.#active = applyRules(this.#options, { version, id }, parseRules(text), this.#active)
      this.#state = { kind: version > 0 ? 'active' : 'deployed' }
      if (version > 0) log('info', { event: 'rules_active', version })
    } catch (error) {
      // No request fails because of what operators have written, even by a mistake of ours.
      const problem = error instanceof OptionError ? error.message : 'they could not be followed'
      this.#state = { kind: 'invalid', problem }
      const path = readPath(problem)
      log('error', { event: 'rules_invalid', version, activeVersion: this.#active.version, path })
    }
  }
}
