import type { RequestPolicy } from '../../model/policy.ts'
import { readDeployedTables } from '../../rules/rule-policies.ts'
import type { Settings } from '../settings/settings.ts'
import type { Path } from '../settings/wrangler-file.ts'

/** `error`: the Worker would refuse to start, or does not get what the file holds. `warning`: surely a mistake. `note`: worth knowing. */
export type Level = 'error' | 'warning' | 'note'

/** Level, meaning, and what to do about it unless the finding says more. */
export const CODES = {
  refused: ['error', 'the Worker would refuse to start'],
  json: ['error', 'JSON that cannot be read'],
  'misplaced-variable': [
    'error',
    'a variable that stands outside of [vars], where the Worker does not get it',
    'Move it there.',
  ],
  'unknown-variable': ['warning', 'a name in capitals that is no variable: the Worker ignores it'],
  'secret-in-file': ['warning', 'a secret in Wrangler’s file'],
  'not-inherited': [
    'note',
    'variables of [vars] that do not hold in the environment',
    'Repeat them there if they are to hold.',
  ],
  'example-upstream': [
    'warning',
    'UPSTREAM_URL is still that of an example; an error with --deploy',
    'Set it to the origin of your API.',
  ],
  'secret-in-clear': [
    'warning',
    'UPSTREAM_SECRET, where UPSTREAM_URL is not https',
    'Use https, or a private network in front.',
  ],
  'upstream-is-route': [
    'warning',
    'UPSTREAM_URL leads back to the gateway',
    'Give the API a host that no route is for.',
  ],
  'store-timeout': ['warning', 'STORE_TIMEOUT_MS is above UPSTREAM_TIMEOUT_MS', 'Lower it; the default is 500.'],
  exempt: [
    'warning',
    'a policy, or a pattern of it, that never applies because an exemption covers it',
    'Narrow the exemption, or remove the policy.',
  ],
  'unlimited-route': [
    'warning',
    'a route that has a priority, and no limits',
    'Add limits to this policy, or a policy with limits for the same requests.',
  ],
  'unlimited-rest': ['note', 'requests that nothing limits', 'RATE_LIMITS, or a policy without match, would.'],
  'priority-without-effect': [
    'warning',
    'a priority where no policy has a reserve, and SHEDDING is off',
    'Give a policy there a reserve, or set SHEDDING = "on".',
  ],
  'implied-policy': [
    'warning',
    'a policy that never refuses, because another one always does so before',
    'Omit it, or make its limits lower.',
  ],
  'implied-limit': [
    'warning',
    'a limit that never refuses, because another one of its policy always does so before',
    'Omit it, or make it lower.',
  ],
  'reserve-for-nobody': [
    'warning',
    'a reserve for critical requests, where none are',
    'Add a policy with priority = "critical" for the requests that may.',
  ],
  'reserve-without-effect': [
    'warning',
    'a reserve that keeps units from sheddable requests, where none are',
    'Add a policy with priority = "sheddable" for the requests that are to stop first.',
  ],
  'reserve-leaves-little': [
    'warning',
    'a reserve that leaves less than a tenth of the limit to the others',
    'Lower the reserve, or raise the limit.',
  ],
  'leases-without-effect': [
    'warning',
    'LEASES, where no policy can use them',
    'All but concurrency can, without penalty.',
  ],
  'local-share-without-effect': [
    'warning',
    'LOCAL_SHARE, where no policy has on_store_error = "local"',
    'Remove it, or set ON_STORE_ERROR = "local".',
  ],
  'label-without-effect': [
    'warning',
    'CALLER_LABEL, where nobody is counted or logged',
    'Set STATISTICS = "on", or LOG_REFUSALS above 0.',
  ],
  'ambiguous-body': [
    'warning',
    'a limit by form: or json: that an unreadable body gets around',
    'anonymous = "deny", the default with form: and json:, refuses padded and multipart bodies, and repeated names.',
  ],
  'keys-elsewhere': [
    'note',
    'policies by claims, and no keys that are known here',
    'Set it by `wrangler secret put JWT_SECRET` and add it to [secrets] required, or set JWKS_URL.',
  ],
  'any-audience': [
    'note',
    'policies by claims, and no JWT_AUDIENCE',
    'Set it to the name that the issuer gives to this API.',
  ],
  shadow: ['note', 'MODE is "shadow": nothing is ever refused', 'Set MODE = "enforce" once the limits are right.'],
} as const satisfies Readonly<Record<string, readonly [Level, string, hint?: string]>>

export interface Finding {
  readonly code: keyof typeof CODES
  readonly message: string
  /** Replaces the one of its code. */
  readonly hint?: string
  /** The variable concerned; `path` is below it. */
  readonly variable?: string
  readonly path?: Path
  /** It concerns the name at the end of the path, not the value. */
  readonly isName?: boolean
  /** Path in Wrangler's file if no variable is concerned. */
  readonly filePath?: Path
  readonly offset?: number
}

/** Locates a valid policy. @param key of its table; a policy without a table comes from RATE_LIMITS */
export function locatePolicy(
  { variables }: Settings,
  { name }: RequestPolicy,
  key = 'name',
): Pick<Finding, 'variable' | 'path'> {
  const index = readDeployedTables(variables).findIndex((table) => table.name === name)
  return index < 0 ? { variable: 'RATE_LIMITS' } : { variable: 'POLICIES', path: [index, key] }
}
