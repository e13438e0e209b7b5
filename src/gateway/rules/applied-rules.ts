/** Applies a version of the rules to requests: the policies with their limiter, and an index of the entries. */
import type { RequestPolicy } from '../../core/model/policy.ts'
import type { Blocked } from '../../core/model/verdict.ts'
import type { Log } from '../../core/runtime/log.ts'
import type { VersionId } from '../../core/store/documents.ts'
import type { Config, Environment, RulesConfig } from '../../http/config/load-config.ts'
import type { ClaimReader } from '../../http/request/identity/claims.ts'
import { type ComposedLimiter, RequestLimiter } from '../../http/request/request-limiter.ts'
import type { Rules } from './document.ts'
import { RuleIndex } from './rule-index.ts'
import { findMisfits, readRulePolicies } from './rule-policies.ts'

export interface AppliedRules extends VersionId {
  readonly rules: Rules | undefined
  readonly policies: readonly RequestPolicy[]
  /** Tells policies from rules apart from earlier ones with the same names, so that no cached refusal of those applies. */
  readonly edition: string | undefined
  readonly index: RuleIndex | undefined
  readonly limiter: RequestLimiter
}

export interface AppliedRulesOptions {
  readonly rules: RulesConfig
  /** The deployed configuration, which applies where the rules say nothing. */
  readonly config: Config
  readonly env: Environment
  readonly composed: ComposedLimiter
  readonly readClaim: ClaimReader | undefined
  readonly log: Log
}

export function applyNoRules({ config, composed }: AppliedRulesOptions): AppliedRules {
  const { policies } = config
  const { limiter } = composed
  return { version: 0, id: '', rules: undefined, policies, edition: undefined, limiter, index: undefined }
}

/** @param before unchanged policies keep their limiter, and what it remembers @throws {OptionError} for invalid policies */
export function applyRules(
  options: AppliedRulesOptions,
  newest: VersionId,
  rules: Rules,
  before: AppliedRules,
): AppliedRules {
  const { config, env, composed, readClaim, log } = options
  const isUnchanged = JSON.stringify(rules.policies) === JSON.stringify(before.rules?.policies)
  const createOwn = () => rules.policies && createLimiter(options, newest, readRulePolicies(env, rules.policies))
  const { policies, edition, limiter } = isUnchanged ? before : (createOwn() ?? applyNoRules(options))
  const misfits = findMisfits(rules, policies)
  if (misfits[0]) {
    const first = readPath(misfits[0].message)
    log('warn', { event: 'overrides_ignored', version: newest.version, count: misfits.length, first })
  }
  const logBlock = ({ status, reason }: Blocked) => log('warn', { event: 'shadow_blocked', status, reason })
  const logInstead = options.rules.isShadow ? logBlock : undefined
  const hasEntries = rules.blocks.length + rules.allows.length + rules.overrides.length > 0
  const { digestsOfTokens } = composed
  const index = hasEntries ? new RuleIndex(rules, { ...config, readClaim, digestsOfTokens, logInstead }) : undefined
  return { ...newest, rules, policies, edition, limiter, index }
}

function createLimiter(
  { config, composed, readClaim, log }: AppliedRulesOptions,
  { version, id }: VersionId,
  policies: readonly RequestPolicy[],
): Pick<AppliedRules, 'policies' | 'edition' | 'limiter'> {
  const edition = `@${version}.${id}`
  const parts = { ...config, ...composed, policies, edition, log, readClaim }
  return { policies, edition, limiter: new RequestLimiter(parts) }
}

/** Cuts off what the document says, which may be about callers. */
export function readPath(message: string): string | undefined {
  return message.split(': expected', 1)[0]
}
