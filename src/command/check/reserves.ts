import type { Config } from '../../config/load-config.ts'
import type { Settings } from '../settings/settings.ts'
import { EVERYTHING } from './covers.ts'
import type { Finding } from './finding.ts'
import { policyPlace } from './policy-place.ts'
import { appliesTo, hasReserve } from './unlimited.ts'

/** Below this part of its limit, a class can do little with a policy. */
const LITTLE = 0.1

/** Reserves that nobody may use, that hold nobody back, or that leave nearly nothing. */
export function reserveMistakes({ policies }: Config, settings: Settings): readonly Finding[] {
  return policies.filter(hasReserve).flatMap((policy): Finding[] => {
    const { reserved, tiers, name } = policy
    const limit = tiers[0]?.limit ?? 0
    const place = policyPlace(settings, policy, 'reserve')
    const isGiven = (priority: string) =>
      policies.some(
        (other) => other.priority === priority && (policy.match ?? [EVERYTHING]).some((each) => appliesTo(other, each)),
      )
    const findings: Finding[] = []
    if (reserved.default > 0 && !isGiven('critical')) {
      findings.push({
        rule: 'reserve-for-nobody',
        message: `policy "${name}" keeps ${reserved.default} of ${limit} for critical requests, and no policy makes any critical: nobody can use them`,
        hint: 'Add a policy with priority = "critical" for the requests that may.',
        ...place,
      })
    }
    if (reserved.sheddable > reserved.default && !isGiven('sheddable')) {
      findings.push({
        rule: 'reserve-without-effect',
        message: `policy "${name}" keeps units from sheddable requests, and no policy makes any sheddable`,
        hint: 'Add a policy with priority = "sheddable" for the requests that are to stop first.',
        ...place,
      })
    }
    const worst = isGiven('sheddable') ? 'sheddable' : 'default'
    const left = limit - reserved[worst]
    if (left < limit * LITTLE) {
      findings.push({
        rule: 'reserve-leaves-little',
        message: `policy "${name}" leaves ${left} of ${limit} to ${worst} requests: the reserve takes nearly the whole window`,
        ...place,
      })
    }
    return findings
  })
}
