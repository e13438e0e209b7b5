import type { Config } from '../../config/load-config.ts'
import type { RequestPolicy } from '../../model/policy.ts'
import { mayOverlap } from '../../request/policy/pattern.ts'
import type { Settings } from '../settings/settings.ts'
import { covers, EVERYTHING, patternText } from './covers.ts'
import type { Finding } from './finding.ts'
import { policyPlace } from './policy-place.ts'

/** Routes that nothing limits, and classes that change nothing. */
export function unlimitedMistakes({ policies, isShedding }: Config, settings: Settings): readonly Finding[] {
  const limiting = policies.filter(({ tiers, counts }) => tiers.length > 0 && counts === 'requests')
  const findings: Finding[] = []
  for (const policy of policies) {
    if (policy.tiers.length > 0) continue
    const patterns = policy.match ?? [EVERYTHING]
    const bare = patterns.filter((pattern) => !limiting.some((other) => appliesTo(other, pattern)))
    const place = policyPlace(settings, policy, policy.match && 'match')
    if (bare.length > 0) {
      findings.push({
        rule: 'unlimited-route',
        message: `nothing limits ${bare.map((pattern) => `"${patternText(pattern)}"`).join(', ')}: policy "${policy.name}" only gives it a class`,
        hint: 'Give the policy limits, or add one that has them.',
        ...place,
      })
    } else if (
      !isShedding &&
      !limiting.some((other) => hasReserve(other) && patterns.some((each) => appliesTo(other, each)))
    ) {
      findings.push({
        rule: 'class-without-effect',
        message: `policy "${policy.name}" gives a class, which changes nothing: no policy there has a reserve, and SHEDDING is off`,
        ...policyPlace(settings, policy, 'priority'),
      })
    }
  }
  const isAll = limiting.some(({ match }) => match === undefined || match.some((each) => covers(each, EVERYTHING)))
  if (!isAll && limiting.length > 0) {
    const routes = limiting.flatMap(({ match }) => match ?? []).map(patternText)
    findings.push({
      rule: 'unlimited-rest',
      message: `nothing limits requests other than ${routes.join(', ')}`,
      hint: 'RATE_LIMITS, or a policy without match, would.',
      variable: settings.variables.RATE_LIMITS === undefined ? 'POLICIES' : 'RATE_LIMITS',
    })
  }
  return findings
}

export function appliesTo({ match }: RequestPolicy, pattern: Parameters<typeof mayOverlap>[0]): boolean {
  return match === undefined || match.some((each) => mayOverlap(each, pattern))
}

export function hasReserve({ reserved }: RequestPolicy): boolean {
  return reserved.sheddable > 0
}
