import type { Config } from '../../config/load-config.ts'
import { isInBody } from '../../request/identity/source.ts'
import type { Settings } from '../settings/settings.ts'
import type { Finding } from './finding.ts'
import { policyPlace } from './policy-place.ts'

/** Limits by something in the body that count by address what they cannot read: a client chooses which bodies those are. */
export function bodyMistakes({ policies }: Config, settings: Settings): readonly Finding[] {
  return policies
    .filter(({ by, tiers, missing }) => tiers.length > 0 && missing.kind !== 'deny' && by.some(isInBody))
    .filter(({ by }) => !by.some(({ kind }) => kind === 'ip'))
    .map((policy) => ({
      rule: 'ambiguous-body',
      message: `policy "${policy.name}" counts bodies that cannot be read for certain by address: one caller has the limit once for each address`,
      hint: 'missing = "deny", the default with form: and json:, refuses bodies that are padded, multipart, or have a name twice.',
      ...policyPlace(settings, policy, 'missing'),
    }))
}
