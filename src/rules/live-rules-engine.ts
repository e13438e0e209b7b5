import { ALGORITHMS } from '../algorithms/algorithm-table.ts'
import type { Config, Environment, RulesConfig } from '../config/load-config.ts'
import { OptionError } from '../config/option-error.ts'
import {
  type ComposedLimiter,
  type DecideOptions,
  RequestLimiter,
  type RequestLimiterOptions,
} from '../engine/limiter.ts'
import type { RequestCharge } from '../model/charge.ts'
import type { RequestPolicy } from '../model/policy.ts'
import { StoreError } from '../model/store.ts'
import type { Blocked, Verdict } from '../model/verdict.ts'
import type { ClaimReader } from '../request/identity/claims.ts'
import type { ReceivedRequest } from '../request/received-request.ts'
import type { RequestPath } from '../request/target.ts'
import type { CallContext } from '../runtime/call-context.ts'
import {
  type DocumentStore,
  isSameVersion,
  NO_DOCUMENT,
  type StoredDocument,
  type VersionId,
} from '../store/documents.ts'
import { type CandidatePolicies, type CandidateTools, createCandidatePolicies } from './candidate-policies.ts'
import { parseRules, type Rules } from './document.ts'
import { RuleIndex } from './rule-index.ts'
import { findMisfits, type PolicyList, readPolicies } from './rule-policies.ts'

export interface LiveRulesEngineOptions extends CandidateTools {
  readonly documents: DocumentStore
  readonly auditLog: DocumentStore
  readonly rules: RulesConfig
  /** The deployed configuration, which applies where the rules say nothing. */
  readonly config: Config
  readonly env: Environment
  readonly composed: ComposedLimiter
  readonly readClaim: ClaimReader | undefined
}

interface AppliedRules extends VersionId {
  readonly rules: Rules | undefined
  readonly policies: readonly RequestPolicy[]
  /** Tells policies from rules apart from earlier ones with the same names, so that no cached refusal of those applies. */
  readonly edition: string | undefined
  readonly index: RuleIndex | undefined
  readonly limiter: RequestLimiter
  readonly candidate: CandidatePolicies | undefined
}

/** A limiter that follows the rules as they are written, between requests. */
export class LiveRulesEngine {
  readonly documents: DocumentStore
  readonly auditLog: DocumentStore
  readonly #options: LiveRulesEngineOptions
  #active: AppliedRules
  /** The newest rules, which may be invalid. */
  #newest: VersionId | undefined
  /** When the last attempt to read the rules began. */
  #triedAtMs: number | undefined
  /** When the attempt began that last succeeded. */
  #readAtMs: number | undefined
  #hasFailed = false
  #problem: string | undefined
  /** Attempts are numbered, so that an answer that comes late does not take the place of a newer one. */
  #attempts = 0
  #latestAnswer = 0

  constructor(options: LiveRulesEngineOptions) {
    this.#options = options
    this.documents = options.documents
    this.auditLog = options.auditLog
    const { config, composed } = options
    const none = { version: 0, id: '', rules: undefined, edition: undefined, index: undefined, candidate: undefined }
    this.#active = { ...none, policies: config.policies, limiter: composed.limiter }
  }

  /** The version is the active one, 0 if there is none; the problem is why a newer one is not active. */
  readonly state = () => {
    const { version, id, candidate } = this.#active
    return { version, id, readAtMs: this.#readAtMs, problem: this.#problem, candidate: candidate?.readCounts() }
  }

  async decide(
    request: ReceivedRequest,
    path: RequestPath,
    context: CallContext,
    { trace }: DecideOptions = {},
  ): Promise<Verdict> {
    const nowMs = this.#options.now()
    const reading = this.#refresh(nowMs, context)
    if (reading) {
      // The rules are so old that a change may have been active elsewhere for a while.
      if (this.#mustWait(nowMs)) await reading
      else context.waitUntil(reading)
    }
    const { index, limiter, candidate } = this.#active
    const rules = index && (await index.match(request, nowMs, context))
    if (rules && 'outcome' in rules) return rules
    const decideActive = () => limiter.decide(request, path, context, { rules, trace })
    return candidate ? candidate.compare(decideActive, request, path, context, rules) : decideActive()
  }

  async findCharges(
    request: ReceivedRequest,
    path: RequestPath,
    context: Pick<CallContext, 'waitUntil'>,
    options?: DecideOptions,
  ): Promise<readonly RequestCharge[] | Verdict> {
    const nowMs = this.#options.now()
    await this.#refresh(nowMs, context)
    const { index, limiter } = this.#active
    const rules = await index?.match(request, nowMs, context)
    return rules && 'outcome' in rules ? rules : limiter.findCharges(request, path, context, { ...options, rules })
  }

  async readPolicies(context: Pick<CallContext, 'waitUntil'>): Promise<Pick<AppliedRules, 'policies' | 'edition'>> {
    await this.#refresh(this.#options.now(), context)
    return this.#active
  }

  charge(...charge: Parameters<RequestLimiter['charge']>): Promise<Verdict> {
    return this.#active.limiter.charge(...charge)
  }

  /** @returns undefined if the rules need not be read yet */
  #refresh(nowMs: number, context: Pick<CallContext, 'waitUntil'>): Promise<void> | undefined {
    const ageMs = nowMs - (this.#triedAtMs ?? Number.NEGATIVE_INFINITY)
    // A clock may have been set back.
    const isDue = ageMs < 0 || ageMs >= this.#options.rules.refreshMs || this.#mustWait(nowMs)
    if (!isDue) return undefined
    const { documents } = this.#options
    const reading = this.#read(nowMs)
    if (documents.afterRead) context.waitUntil(reading.then(() => documents.afterRead?.()))
    return reading
  }

  #mustWait(nowMs: number): boolean {
    if (this.#hasFailed) return false
    return this.#readAtMs === undefined || nowMs - this.#readAtMs >= 2 * this.#options.rules.refreshMs
  }

  /** Each request that waits reads by itself: on Workers, none may wait for another's. */
  async #read(nowMs: number): Promise<void> {
    const { documents, log } = this.#options
    const attempt = ++this.#attempts
    this.#triedAtMs = nowMs
    try {
      const document = await documents.read(this.#newest)
      if (attempt < this.#latestAnswer) return
      this.#latestAnswer = attempt
      this.#readAtMs = nowMs
      this.#hasFailed = false
      if (document) this.#update(document)
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
      if (attempt < this.#latestAnswer) return
      this.#hasFailed = true
      log('warn', { event: 'rules_read_failed', version: this.#active.version, message: error.message })
    }
  }

  #update({ version, id, text }: StoredDocument): void {
    const { log } = this.#options
    const activeVersion = this.#active.version
    const newest = { version, id }
    if (version === 0 && activeVersion > 0) {
      // To end all rules, operators write an empty rule set. This is a database that was emptied, or that evicts.
      this.#newest = NO_DOCUMENT
      this.#problem = 'the rules are gone from the store'
      log('error', { event: 'rules_lost', activeVersion })
    } else if (!isSameVersion(newest, this.#newest)) {
      // Each write makes a higher number: this one was made where the known ones were lost.
      if (this.#newest && version <= this.#newest.version) log('error', { event: 'rules_lost', activeVersion, version })
      this.#newest = newest
      this.#activate(newest, text)
    }
  }

  /** Invalid rules leave the last valid ones active. */
  #activate(newest: VersionId, text: string): void {
    const { log } = this.#options
    const { version } = newest
    try {
      this.#active = this.#createActiveRules(newest, parseRules(text))
      this.#problem = undefined
      if (version > 0) log('info', { event: 'rules_active', version })
    } catch (error) {
      // No request fails because of what operators have written, even by a mistake of ours.
      this.#problem = error instanceof OptionError ? error.message : 'they could not be followed'
      const place = readPlace(this.#problem)
      log('error', { event: 'rules_invalid', version, activeVersion: this.#active.version, place })
    }
  }

  #createActiveRules(newest: VersionId, rules: Rules): AppliedRules {
    const { config, composed, env, readClaim, log } = this.#options
    const { digestsOfTokens } = composed
    const hasEntries = rules.blocks.length + rules.allows.length + rules.overrides.length > 0
    const active = this.#active
    // Unchanged policies keep their limiter, and what it remembers.
    const isUnchanged = (list: PolicyList) => JSON.stringify(rules[list]) === JSON.stringify(active.rules?.[list])
    const deployed = { policies: config.policies, edition: undefined, limiter: composed.limiter }
    const { policies, edition, limiter } = isUnchanged('policies')
      ? active
      : rules.policies
        ? this.#createLimiter(newest, readPolicies(env, rules.policies, 'policies'))
        : deployed
    const misfits = findMisfits(rules, policies)
    if (misfits[0]) {
      const first = readPlace(misfits[0].message)
      log('warn', { event: 'overrides_ignored', version: newest.version, count: misfits.length, first })
    }
    const logInstead = this.#options.rules.isShadow
      ? ({ status, reason }: Blocked) => log('warn', { event: 'shadow_blocked', status, reason })
      : undefined
    const options = { ...config, readClaim, digestsOfTokens, logInstead }
    const index = hasEntries ? new RuleIndex(rules, options) : undefined
    const createCandidate = () => rules.candidate && this.#createCandidate(newest, rules.candidate)
    const candidate = isUnchanged('candidate') ? active.candidate : createCandidate()
    return { ...newest, rules, policies, edition, limiter, index, candidate }
  }

  #createCandidate(newest: VersionId, tables: Rules['candidate']): CandidatePolicies {
    const { config, env } = this.#options
    const policies = readPolicies(env, tables, 'candidate').filter(isComparable)
    const keyPrefix = `${config.keyPrefix}:rules:candidate`
    const { limiter } = this.#createLimiter(newest, policies, { keyPrefix, health: undefined, log: () => {} })
    return createCandidatePolicies(limiter, newest.version, this.#options)
  }

  #createLimiter(
    { version, id }: VersionId,
    policies: readonly RequestPolicy[],
    changed?: Pick<RequestLimiterOptions, 'keyPrefix' | 'health' | 'log'>,
  ): Pick<AppliedRules, 'policies' | 'edition' | 'limiter'> {
    const { config, composed, readClaim, log } = this.#options
    const { engine, health, digestsOfTokens } = composed
    const edition = `@${version}.${id}`
    const options = { ...config, policies, edition, engine, health, log, readClaim, digestsOfTokens, ...changed }
    return { policies, edition, limiter: new RequestLimiter(options) }
  }
}

/** Cuts off what the document says, which may be about callers. */
function readPlace(message: string): string | undefined {
  return message.split(': expected', 1)[0]
}

/** Candidates never see the response: some policies need it to tell what they would refuse. */
function isComparable({ algorithm, counts }: RequestPolicy): boolean {
  return !ALGORITHMS[algorithm].holdsSlots && counts !== 'failures'
}
