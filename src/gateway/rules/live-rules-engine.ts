/** A limiter that follows the rules as operators write them. */
import type { RequestCharge } from '../../core/model/charge.ts'
import { StoreError } from '../../core/model/store.ts'
import type { Verdict } from '../../core/model/verdict.ts'
import { OptionError } from '../../core/options/option-error.ts'
import {
  type DocumentStore,
  isSameVersion,
  NO_DOCUMENT,
  type StoredDocument,
  type VersionId,
} from '../../core/store/documents.ts'
import type { Exchange } from '../../http/request/received-request.ts'
import type { DecideOptions, RequestLimiter } from '../../http/request/request-limiter.ts'
import { type AppliedRules, type AppliedRulesOptions, applyNoRules, applyRules, readPlace } from './applied-rules.ts'
import { parseRules } from './document.ts'
import type { PlaceCopy, RulesReading } from './place-copy.ts'

export interface LiveRulesEngineOptions extends AppliedRulesOptions {
  readonly documents: DocumentStore
  readonly auditLog: DocumentStore
  /** Undefined where nothing is shared by the isolates of a place. */
  readonly copy?: PlaceCopy | undefined
  readonly now: () => number
}

type Received = Pick<Exchange, 'request' | 'context'>

/** Decides by the rules as they are written, which it reads between requests. */
export class LiveRulesEngine {
  readonly documents: DocumentStore
  readonly auditLog: DocumentStore
  readonly #options: LiveRulesEngineOptions
  #active: AppliedRules
  /** The newest rules, which may be invalid. */
  #newest: VersionId | undefined
  /** When the last attempt to read the rules began. */
  #triedAtMs = Number.NEGATIVE_INFINITY
  /** When the attempt began that last succeeded. */
  #readAtMs: number | undefined
  #hasFailed = false
  #problem: string | undefined
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

  /** The version is the active one, 0 if there is none; the problem is why a newer one is not active. */
  state() {
    const { version, id } = this.#active
    return { version, id, readAtMs: this.#readAtMs, problem: this.#problem }
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
    const everyMs = copy && !this.#hasFailed ? rules.refreshMs / 2 : rules.refreshMs
    // A clock may have been set back.
    const isDue = ageMs < 0 || ageMs >= everyMs || this.#mustWait(nowMs)
    if (!isDue) return undefined
    const reading = this.#read(nowMs, received)
    if (documents.afterRead) received.context.waitUntil(reading.then(() => documents.afterRead?.()))
    return reading
  }

  #mustWait(nowMs: number): boolean {
    const readAtMs = this.#readAtMs
    return !this.#hasFailed && (readAtMs === undefined || nowMs - readAtMs >= 2 * this.#options.rules.refreshMs)
  }

  /** Each request that waits reads by itself: on Workers, none may wait for another's. */
  async #read(nowMs: number, received: Received): Promise<void> {
    const attempt = ++this.#attempts
    this.#triedAtMs = nowMs
    try {
      const { document, readAtMs } = await this.#find(nowMs, received)
      if (attempt < this.#latestAnswer) return
      this.#latestAnswer = attempt
      this.#readAtMs = readAtMs
      this.#hasFailed = false
      // Of two attempts at once, the later one may have read before the other, or a copy.
      const isOld = attempt <= this.#attemptsBefore && document && document.version <= (this.#newest?.version ?? 0)
      if (document && !isOld) this.#update(document)
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
      if (attempt < this.#latestAnswer) return
      this.#hasFailed = true
      const { version } = this.#active
      this.#options.log('warn', { event: 'rules_read_failed', version, message: error.message })
    }
  }

  async #find(nowMs: number, received: Received): Promise<RulesReading> {
    const { copy } = this.#options
    if (copy) return copy.read(this.#newest, received)
    return { document: await this.documents.read(this.#newest), readAtMs: nowMs }
  }

  #update({ version, id, text }: StoredDocument): void {
    this.#attemptsBefore = this.#attempts
    const { log } = this.#options
    const activeVersion = this.#active.version
    const known = this.#newest
    if (version === 0 && activeVersion > 0) {
      // To end all rules, operators write an empty rule set. This is a database that was emptied, or that evicts.
      this.#newest = NO_DOCUMENT
      this.#problem = 'the rules are gone from the store'
      log('error', { event: 'rules_lost', activeVersion })
    } else if (!isSameVersion({ version, id }, known)) {
      // Each write makes a higher number: this one was made where the known ones were lost.
      if (known && version <= known.version) log('error', { event: 'rules_lost', activeVersion, version })
      this.#newest = { version, id }
      this.#followRules(this.#newest, text)
    }
  }

  /** Invalid rules leave the last valid ones active. */
  #followRules(newest: VersionId, text: string): void {
    const { log } = this.#options
    const { version } = newest
    try {
      this.#active = applyRules(this.#options, newest, parseRules(text), this.#active)
      this.#problem = undefined
      if (version > 0) log('info', { event: 'rules_active', version })
    } catch (error) {
      // No request fails because of what operators have written, even by a mistake of ours.
      this.#problem = error instanceof OptionError ? error.message : 'they could not be followed'
      const place = readPlace(this.#problem)
      log('error', { event: 'rules_invalid', version, activeVersion: this.#active.version, place })
    }
  }
}
