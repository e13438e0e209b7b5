import type { RequestCharge } from '../../core/model/charge.ts'
import type { RequestPolicy } from '../../core/model/policy.ts'
import { StoreError } from '../../core/model/store.ts'
import type { Blocked, Verdict } from '../../core/model/verdict.ts'
import { OptionError } from '../../core/options/option-error.ts'
import type { CallContext } from '../../core/runtime/call-context.ts'
import type { Log } from '../../core/runtime/log.ts'
import {
  type DocumentStore,
  isSameVersion,
  NO_DOCUMENT,
  type StoredDocument,
  type VersionId,
} from '../../core/store/documents.ts'
import type { Config, Environment, RulesConfig } from '../../http/config/load-config.ts'
import type { ClaimReader } from '../../http/request/identity/claims.ts'
import type { Exchange } from '../../http/request/received-request.ts'
import { type ComposedLimiter, type DecideOptions, RequestLimiter } from '../../http/request/request-limiter.ts'
import { parseRules, type Rules } from './document.ts'
import { RuleIndex } from './rule-index.ts'
import { findMisfits, readPolicies } from './rule-policies.ts'

export interface LiveRulesEngineOptions {
  readonly documents: DocumentStore
  readonly auditLog: DocumentStore
  readonly rules: RulesConfig
  /** The deployed configuration, which applies where the rules say nothing. */
  readonly config: Config
  readonly env: Environment
  readonly composed: ComposedLimiter
  readonly readClaim: ClaimReader | undefined
  readonly now: () => number
  readonly log: Log
}

interface AppliedRules extends VersionId {
  readonly rules: Rules | undefined
  readonly policies: readonly RequestPolicy[]
  /** Tells policies from rules apart from earlier ones with the same names, so that no cached refusal of those applies. */
  readonly edition: string | undefined
  readonly index: RuleIndex | undefined
  readonly limiter: RequestLimiter
}

export type LiveRulesEngine = ReturnType<typeof createRulesEngine>

/** Creates a limiter that follows the rules as they are written, between requests. */
export function createRulesEngine(options: LiveRulesEngineOptions) {
  const { documents, auditLog, config, env, composed, readClaim, log, now } = options
  const { refreshMs, isShadow } = options.rules
  const { engine, health, digestsOfTokens } = composed
  const deployed = { policies: config.policies, edition: undefined, limiter: composed.limiter }
  const none = { version: 0, id: '', rules: undefined, index: undefined }
  let active: AppliedRules = { ...none, ...deployed }
  /** The newest rules, which may be invalid. */
  let newest: VersionId | undefined
  /** When the last attempt to read the rules began. */
  let triedAtMs = Number.NEGATIVE_INFINITY
  /** When the attempt began that last succeeded. */
  let readAtMs: number | undefined
  let hasFailed = false
  let problem: string | undefined
  /** Attempts are numbered, so that an answer that comes late does not take the place of a newer one. */
  let attempts = 0
  let latestAnswer = 0

  /** @returns undefined if the rules need not be read yet */
  function readIfDue(nowMs: number, context: Pick<CallContext, 'waitUntil'>): Promise<void> | undefined {
    const ageMs = nowMs - triedAtMs
    // A clock may have been set back.
    const isDue = ageMs < 0 || ageMs >= refreshMs || mustWait(nowMs)
    if (!isDue) return undefined
    const reading = read(nowMs)
    if (documents.afterRead) context.waitUntil(reading.then(() => documents.afterRead?.()))
    return reading
  }

  function mustWait(nowMs: number): boolean {
    return !hasFailed && (readAtMs === undefined || nowMs - readAtMs >= 2 * refreshMs)
  }

  /** Each request that waits reads by itself: on Workers, none may wait for another's. */
  async function read(nowMs: number): Promise<void> {
    const attempt = ++attempts
    triedAtMs = nowMs
    try {
      const document = await documents.read(newest)
      if (attempt < latestAnswer) return
      latestAnswer = attempt
      readAtMs = nowMs
      hasFailed = false
      if (document) update(document)
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
      if (attempt < latestAnswer) return
      hasFailed = true
      log('warn', { event: 'rules_read_failed', version: active.version, message: error.message })
    }
  }

  function update({ version, id, text }: StoredDocument): void {
    const activeVersion = active.version
    const known = newest
    if (version === 0 && activeVersion > 0) {
      // To end all rules, operators write an empty rule set. This is a database that was emptied, or that evicts.
      newest = NO_DOCUMENT
      problem = 'the rules are gone from the store'
      log('error', { event: 'rules_lost', activeVersion })
    } else if (!isSameVersion({ version, id }, known)) {
      // Each write makes a higher number: this one was made where the known ones were lost.
      if (known && version <= known.version) log('error', { event: 'rules_lost', activeVersion, version })
      newest = { version, id }
      followRules(newest, text)
    }
  }

  /** Invalid rules leave the last valid ones active. */
  function followRules(newest: VersionId, text: string): void {
    const { version } = newest
    try {
      active = createActiveRules(newest, parseRules(text))
      problem = undefined
      if (version > 0) log('info', { event: 'rules_active', version })
    } catch (error) {
      // No request fails because of what operators have written, even by a mistake of ours.
      problem = error instanceof OptionError ? error.message : 'they could not be followed'
      const place = readPlace(problem)
      log('error', { event: 'rules_invalid', version, activeVersion: active.version, place })
    }
  }

  function createActiveRules(newest: VersionId, rules: Rules): AppliedRules {
    const hasEntries = rules.blocks.length + rules.allows.length + rules.overrides.length > 0
    // Unchanged policies keep their limiter, and what it remembers.
    const isUnchanged = JSON.stringify(rules.policies) === JSON.stringify(active.rules?.policies)
    const createOwn = () => rules.policies && createLimiter(newest, readPolicies(env, rules.policies))
    const { policies, edition, limiter } = isUnchanged ? active : (createOwn() ?? deployed)
    const misfits = findMisfits(rules, policies)
    if (misfits[0]) {
      const first = readPlace(misfits[0].message)
      log('warn', { event: 'overrides_ignored', version: newest.version, count: misfits.length, first })
    }
    const logBlock = ({ status, reason }: Blocked) => log('warn', { event: 'shadow_blocked', status, reason })
    const options = { ...config, readClaim, digestsOfTokens, logInstead: isShadow ? logBlock : undefined }
    const index = hasEntries ? new RuleIndex(rules, options) : undefined
    return { ...newest, rules, policies, edition, limiter, index }
  }

  function createLimiter(
    { version, id }: VersionId,
    policies: readonly RequestPolicy[],
  ): Pick<AppliedRules, 'policies' | 'edition' | 'limiter'> {
    const edition = `@${version}.${id}`
    const parts = { ...config, policies, edition, engine, health, log, readClaim, digestsOfTokens }
    return { policies, edition, limiter: new RequestLimiter(parts) }
  }

  return {
    documents,
    auditLog,

    /** The version is the active one, 0 if there is none; the problem is why a newer one is not active. */
    state() {
      const { version, id } = active
      return { version, id, readAtMs, problem }
    },

    async decide(exchange: Exchange, options?: DecideOptions): Promise<Verdict> {
      const { request, context } = exchange
      const nowMs = now()
      const reading = readIfDue(nowMs, context)
      if (reading) {
        // The rules are so old that a change may have been active elsewhere for a while.
        if (mustWait(nowMs)) await reading
        else context.waitUntil(reading)
      }
      const { index, limiter } = active
      const rules = index && (await index.match(request, nowMs, context))
      if (rules && 'outcome' in rules) return rules
      return limiter.decide(exchange, { ...options, rules })
    },

    async findCharges(exchange: Exchange, options?: DecideOptions): Promise<readonly RequestCharge[] | Verdict> {
      const { request, context } = exchange
      const nowMs = now()
      await readIfDue(nowMs, context)
      const { index, limiter } = active
      const rules = await index?.match(request, nowMs, context)
      return rules && 'outcome' in rules ? rules : limiter.findCharges(exchange, { ...options, rules })
    },

    async readPolicies(context: Pick<CallContext, 'waitUntil'>): Promise<Pick<AppliedRules, 'policies' | 'edition'>> {
      await readIfDue(now(), context)
      return active
    },

    charge: (...charge: Parameters<RequestLimiter['charge']>) => active.limiter.charge(...charge),
  }
}

/** Cuts off what the document says, which may be about callers. */
function readPlace(message: string): string | undefined {
  return message.split(': expected', 1)[0]
}
