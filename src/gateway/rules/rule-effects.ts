/** Finds what rules make of the charges of a caller, for everything that tells an operator about one. */
import { formatSource, type IdentitySource } from '../../core/model/identity-source.ts'
import type { Blocked } from '../../core/model/verdict.ts'
import type { Config } from '../../http/config/load-config.ts'
import { type Caller, createClaimReader, createRequest, NO_RESPONSE } from '../callers/caller.ts'
import type { CallerCharge } from '../callers/caller-charges.ts'
import { isOver, type Rules } from './document.ts'
import { RuleIndex } from './rule-index.ts'
import { parseKnownBy } from './target.ts'

export interface RuleEffects {
  /** With the limits that apply. */
  readonly charges: readonly CallerCharge[]
  /** The block is only logged in shadow mode. */
  readonly blocked: (Blocked & { readonly isShadow: boolean }) | undefined
  /** Nothing refuses it, whatever other rules there are. */
  readonly isAllowed: boolean
}

type EffectsConfig = Pick<Config, 'ipv6Prefix' | 'identitySecret' | 'mergesParameters' | 'rules'>

/**
 * @param caller undefined if nothing but digests is known: rules that name one apply, whatever it is a digest of
 * @returns finds what the rules make of charges of the caller
 */
export function createRulesReader(rules: Rules, config: EffectsConfig, now: () => number, caller?: Caller) {
  const logged: Blocked[] = []
  const logInstead = config.rules?.isShadow ? (blocked: Blocked) => void logged.push(blocked) : undefined
  const readClaim = createClaimReader(caller?.claim)
  const index = new RuleIndex(rules, { ...config, readClaim, isByDigestOnly: caller === undefined, logInstead })
  return async (charges: readonly CallerCharge[]): Promise<RuleEffects> => {
    const matched = await index.match(createRequest(caller ?? {}), now(), NO_RESPONSE)
    const isAllowed = matched !== undefined && 'apply' in matched && matched.isAllowed
    const applied = matched && 'apply' in matched ? await matched.apply(charges) : (matched ?? charges)
    if ('outcome' in applied) return { charges, blocked: { ...applied, isShadow: false }, isAllowed }
    const [blocked] = logged.splice(0)
    return {
      charges: joinPlans(applied),
      blocked: blocked && { ...blocked, isShadow: true },
      isAllowed,
    }
  }
}

/** A rule may give the same limits to all plans: which of them a caller has is then no matter. */
function joinPlans(charges: readonly CallerCharge[]): readonly CallerCharge[] {
  return charges.flatMap((charge) => {
    const own = charges.filter(({ key }) => key === charge.key)
    const isSame = ({ limits, burst }: CallerCharge) =>
      JSON.stringify([limits, burst]) === JSON.stringify([charge.limits, charge.burst])
    if (own.length === 1 || !own.every((other) => other.plan !== other.planName && isSame(other))) return [charge]
    return own[0] === charge ? [{ ...charge, planName: undefined, isAssumed: false }] : []
  })
}

/**
 * Lists what rules go by that is not known, such as `country`: they may apply, or not.
 * @param isKnown tells of a source by which rules name callers
 */
export function listUndecided(
  rules: Rules,
  isKnown: (source: IdentitySource) => boolean,
  nowMs: number,
): readonly string[] {
  const undecided = [...rules.blocks, ...rules.allows, ...rules.overrides].flatMap((rule) => {
    if (isOver(rule, nowMs)) return []
    if ('country' in rule && rule.country !== undefined) return 'country'
    if ('asn' in rule && rule.asn !== undefined) return 'asn'
    const source = parseKnownBy(rule.cidr === undefined ? (rule.by ?? '') : 'ip')
    return source && !isKnown(source) ? formatSource(source) : []
  })
  return [...new Set(undecided)]
}

/**
 * @param charges that have counted the digest
 * @returns tells of what it is a digest, as far as they or a rule say
 */
export function createDigestTest(rules: Rules, charges: readonly CallerCharge[], digest: string | undefined) {
  const named = [...rules.blocks, ...rules.allows, ...rules.overrides].find((rule) => rule.by && rule.digest === digest)
  const sources = new Set(named ? [named.by] : charges.map(({ policy: { by } }) => by.map(formatSource).join('+')))
  return (source: IdentitySource) => sources.size === 1 && sources.has(formatSource(source))
}
