import { ALGORITHMS } from '../algorithms/algorithm-table.ts'
import { OptionError } from '../config/option-error.ts'
import type { ComposedLimiter, LimiterConfig } from '../engine/limiter.ts'
import { type DecideOptions, Limiter } from '../engine/limiter.ts'
import type { RulesEngine, RulesState, WatchCandidates } from '../engine/rules-engine.ts'
import type { RequestCharge } from '../model/charge.ts'
import type { RequestPolicy } from '../model/policy.ts'
import { StoreError } from '../model/store.ts'
import type { Blocked, Verdict } from '../model/verdict.ts'
import type { ClaimReader } from '../request/identity/claims.ts'
import type { ReceivedRequest } from '../request/received-request.ts'
import type { RequestPath } from '../request/target.ts'
import type { CallContext } from '../runtime/call-context.ts'
import type { Log } from '../runtime/log.ts'
import {
  type DocumentStore,
  isSameVersion,
  NO_DOCUMENT,
  type StoredDocument,
  type VersionId,
} from '../store/documents.ts'
import { CandidatePolicies, type CandidateTools } from './candidate-policies.ts'
import { parseRules, type Rules } from './document.ts'
import { type Found, RuleIndex } from './rule-index.ts'
import { findMisfits, type PolicyList } from './rule-policies.ts'

export interface LiveRulesEngineOptions extends Pick<RulesEngine, 'documents' | 'journal'> {
  /** How long the rules hold before they are read again, in milliseconds. */
  readonly refreshMs: number
  /** Whether blocks refuse nobody, but are logged. */
  readonly isShadow: boolean
  /** What the deploy has configured: it holds where the rules say nothing. */
  readonly config: LimiterConfig
  readonly composed: ComposedLimiter
  /** Left out: no token can be verified. */
  readonly readClaim?: ClaimReader | undefined
  /** The policies that tables make with the Worker's other variables. Throws a `OptionError`. */
  readonly policiesOf: (tables: unknown, list: PolicyList) => readonly RequestPolicy[]
  /** Called before rules are asked that these policies make. */
  readonly prepareFor: (policies: readonly RequestPolicy[]) => void
  /** Is told how policies in shadow decide; left out, only the log is. */
  readonly watchShadow?: WatchCandidates | undefined
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number
  readonly log: Log
}

/** What decides requests. */
interface ActiveRules extends VersionId {
  readonly rules: Rules | undefined
  readonly policies: readonly RequestPolicy[]
  readonly rulebook: RuleIndex | undefined
  readonly limiter: Limiter
  readonly shadow: CandidatePolicies | undefined
}

/** A request, and when it came. */
interface Arrival extends Pick<DecideOptions, 'trace'> {
  readonly request: ReceivedRequest
  readonly path: RequestPath
  readonly context: CallContext
  readonly nowMs: number
}

/** A limiter that follows the rules as they are written, between requests. */
export class LiveRulesEngine implements RulesEngine {
  readonly documents: DocumentStore
  readonly journal: DocumentStore
  readonly #options: LiveRulesEngineOptions
  #inForce: ActiveRules
  /** The newest rules, which may be wrong. */
  #known: VersionId | undefined
  /** When the last attempt to read them began. */
  #triedMs: number | undefined
  /** When the attempt began that last succeeded. */
  #readMs: number | undefined
  #hasFailed = false
  #problem: string | undefined
  /** Attempts are numbered, so that an answer that comes late does not take the place of a newer one. */
  #attempts = 0
  #latestAnswer = 0

  constructor(options: LiveRulesEngineOptions) {
    this.#options = options
    this.documents = options.documents
    this.journal = options.journal
    const { config, composed } = options
    const { policies } = config
    this.#inForce = {
      ...{ version: 0, id: '', rules: undefined, policies, limiter: composed.limiter },
      ...{ rulebook: undefined, shadow: undefined },
    }
  }

  readonly state = (): RulesState => {
    const { version, id, shadow } = this.#inForce
    return { version, id, readAtMs: this.#readMs, problem: this.#problem, shadow: shadow?.counts }
  }

  decide(
    request: ReceivedRequest,
    path: RequestPath,
    context: CallContext,
    { trace }: DecideOptions = {},
  ): Promise<Verdict> {
    const nowMs = this.#options.now()
    const asked = { request, path, context, trace, nowMs }
    const reading = this.#refresh(nowMs, context)
    if (reading) {
      // Nobody has read them for so long that a change may have been in force elsewhere for a while.
      if (this.#mustWait(nowMs)) return reading.then(() => this.#decideBy(asked))
      context.waitUntil(reading)
    }
    return this.#decideBy(asked)
  }

  /** What is to be charged for a request by the newest rules; policies in shadow are not asked. */
  async findCharges(
    request: ReceivedRequest,
    path: RequestPath,
    context: Pick<CallContext, 'waitUntil'>,
  ): Promise<readonly RequestCharge[] | Verdict> {
    const nowMs = this.#options.now()
    await this.#refresh(nowMs, context)
    const { rulebook, limiter } = this.#inForce
    const orders = this.#ordersOf(await rulebook?.ordersFor(request, nowMs, context))
    return orders && 'kind' in orders ? orders : limiter.findCharges(request, path, context, { rules: orders })
  }

  charge(...asked: Parameters<Limiter['charge']>): Promise<Verdict> {
    return this.#inForce.limiter.charge(...asked)
  }

  /** @returns undefined if the rules need not be read yet */
  #refresh(nowMs: number, context: Pick<CallContext, 'waitUntil'>): Promise<void> | undefined {
    if (!this.#isDue(nowMs)) return undefined
    const reading = this.#read(nowMs)
    const { documents } = this.#options
    if (documents.afterRead) context.waitUntil(reading.then(() => documents.afterRead?.()))
    return reading
  }

  #decideBy(asked: Arrival): Promise<Verdict> {
    const inForce = this.#inForce
    const found = inForce.rulebook?.ordersFor(asked.request, asked.nowMs, asked.context)
    if (found instanceof Promise) return found.then((later) => this.#decideUnder(later, inForce, asked))
    return this.#decideUnder(found, inForce, asked)
  }

  async #decideUnder(
    found: Found,
    { limiter, shadow }: ActiveRules,
    { request, path, context, trace }: Arrival,
  ): Promise<Verdict> {
    const orders = this.#ordersOf(found)
    if (orders && 'kind' in orders) return orders
    const decide = () => limiter.decide(request, path, context, { rules: orders, trace })
    return shadow ? shadow.decideBeside(decide, request, path, context, orders) : decide()
  }

  /** Under MODE=shadow, without what would block a caller. */
  #ordersOf(found: Found): Found {
    if (!found || !this.#options.isShadow) return found
    const logBlock = ({ status, reason }: Blocked) =>
      this.#options.log('warn', { event: 'shadow_blocked', status, reason })
    if ('kind' in found) {
      logBlock(found)
      return undefined
    }
    return {
      isAllowed: found.isAllowed,
      async apply(charges) {
        const applied = await found.apply(charges)
        if (!('kind' in applied)) return applied
        logBlock(applied)
        return charges
      },
    }
  }

  #isDue(nowMs: number): boolean {
    const ageMs = nowMs - (this.#triedMs ?? Number.NEGATIVE_INFINITY)
    // A clock may have been set back.
    return ageMs < 0 || ageMs >= this.#options.refreshMs || this.#mustWait(nowMs)
  }

  #mustWait(nowMs: number): boolean {
    if (this.#hasFailed) return false
    return this.#readMs === undefined || nowMs - this.#readMs >= 2 * this.#options.refreshMs
  }

  /** Each request that waits reads by itself: on Workers, none may wait for another's. */
  async #read(nowMs: number): Promise<void> {
    const { documents, log } = this.#options
    const attempt = ++this.#attempts
    this.#triedMs = nowMs
    try {
      const document = await documents.read(this.#known)
      if (attempt < this.#latestAnswer) return
      this.#latestAnswer = attempt
      this.#readMs = nowMs
      this.#hasFailed = false
      if (document) this.#learn(document)
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
      if (attempt < this.#latestAnswer) return
      this.#hasFailed = true
      log('warn', { event: 'rules_unread', version: this.#inForce.version, message: error.message })
    }
  }

  #learn({ version, id, text }: StoredDocument): void {
    const { log } = this.#options
    const inForce = this.#inForce.version
    const known = { version, id }
    if (version === 0 && inForce > 0) {
      // Whoever wants no rules writes that there are none. This is a database that was emptied, or that evicts.
      this.#known = NO_DOCUMENT
      this.#problem = 'the rules are gone from the store'
      log('error', { event: 'rules_lost', inForce })
    } else if (!isSameVersion(known, this.#known)) {
      // Each write makes a higher number: this one was made where the known ones were lost.
      if (this.#known && version <= this.#known.version) log('error', { event: 'rules_lost', inForce, version })
      this.#known = known
      this.#follow(known, text)
    }
  }

  /** Rules that make no sense leave those in force that do. */
  #follow(newest: VersionId, text: string): void {
    const { log } = this.#options
    const { version } = newest
    try {
      this.#inForce = this.#made(newest, parseRules(text))
      this.#problem = undefined
      if (version > 0) log('info', { event: 'rules_in_force', version })
    } catch (error) {
      // No request fails because of what operators have written, even by a mistake of ours.
      this.#problem = error instanceof OptionError ? error.message : 'they could not be followed'
      // The message may repeat what the document says of callers.
      const place = this.#problem.split(': expected', 1)[0]
      log('error', { event: 'rules_refused', version, inForce: this.#inForce.version, place })
    }
  }

  #made(newest: VersionId, rules: Rules): ActiveRules {
    const { version, id } = newest
    const { config, composed, readClaim, now, log, watchShadow: watch } = this.#options
    const { digestsOfTokens } = composed
    const hasEntries = rules.blocks.length + rules.allows.length + rules.overrides.length > 0
    const { policies, limiter } = this.#limiterFor(newest, rules)
    const misfits = findMisfits(rules, policies)
    if (misfits[0]) {
      const place = misfits[0].message.split(': expected', 1)[0]
      log('warn', { event: 'overrides_without_effect', version, count: misfits.length, first: place })
    }
    return {
      ...{ version, id, rules, policies, limiter },
      rulebook: hasEntries ? new RuleIndex(rules, { ...config, readClaim, digestsOfTokens }) : undefined,
      shadow: rules.shadow && this.#shadowOf(rules.shadow, newest, { now, log, watch }),
    }
  }

  /** As long as the policies are the same, so is what is remembered of them. */
  #limiterFor({ version, id }: VersionId, { policies: tables }: Rules): Pick<ActiveRules, 'policies' | 'limiter'> {
    const before = this.#inForce
    if (JSON.stringify(tables) === JSON.stringify(before.rules?.policies)) return before
    const { config, composed, policiesOf, prepareFor, readClaim, log } = this.#options
    const { engine, health, digestsOfTokens } = composed
    if (tables === undefined) return { policies: config.policies, limiter: composed.limiter }
    const policies = policiesOf(tables, 'policies')
    prepareFor(policies)
    const own = { policies, edition: `@${version}.${id}` }
    return { policies, limiter: new Limiter({ ...config, ...own, engine, health, log, readClaim, digestsOfTokens }) }
  }

  #shadowOf(tables: unknown, { version, id }: VersionId, tools: CandidateTools): CandidatePolicies {
    const before = this.#inForce
    if (before.shadow && JSON.stringify(tables) === JSON.stringify(before.rules?.shadow)) return before.shadow
    const { config, composed, policiesOf, prepareFor, readClaim } = this.#options
    // Enforced, to tell what they would refuse. Others need the response, which is not theirs.
    const policies = policiesOf(tables, 'shadow').filter(isComparable)
    prepareFor(policies)
    const keyPrefix = `${config.keyPrefix}:rules:shadow`
    const { engine, digestsOfTokens } = composed
    const limiter = new Limiter({
      ...{ ...config, policies, keyPrefix, edition: `@${version}.${id}` },
      ...{ engine, health: undefined, log: () => {}, readClaim, digestsOfTokens },
    })
    return new CandidatePolicies(limiter, version, tools)
  }
}

/** Whether it can be told, without the response, what a policy would refuse. */
function isComparable({ algorithm, counts }: RequestPolicy): boolean {
  return !ALGORITHMS[algorithm].holdsSlots && counts !== 'failures'
}
