import type { Config } from '../../config/load-config.ts'
import type { Settings } from '../settings/settings.ts'
import { covers, EVERYTHING, patternText } from './covers.ts'
import type { Finding } from './finding.ts'
import { policyPlace } from './policy-place.ts'

/** Policies, and patterns of them, of which an exemption leaves nothing. */
export function exemptionMistakes({ policies, exempt }: Config, settings: Settings): readonly Finding[] {
  return policies.flatMap((policy): Finding[] => {
    const covered = (policy.match ?? [EVERYTHING]).flatMap((pattern) => {
      // An exemption minds the case; nobody writes a policy for the other spellings alone.
      const exemption = exempt.find((each) => covers(each, pattern))
      return exemption ? [{ pattern, exemption }] : []
    })
    const [first] = covered
    if (!first) return []
    const isWhole = covered.length === (policy.match ?? [EVERYTHING]).length
    const those = covered.map(({ pattern }) => `"${patternText(pattern)}"`).join(', ')
    const what = policy.match === undefined ? '' : isWhole ? ` (${those})` : `, ${those} of its patterns`
    return [
      {
        rule: 'exempt',
        message: `policy "${policy.name}"${what} never applies: EXEMPT has "${patternText(first.exemption)}"`,
        hint: 'What is exempt passes without limits, whatever policies say.',
        ...(policy.match ? policyPlace(settings, policy, 'match') : { variable: 'EXEMPT' }),
      },
    ]
  })
}
