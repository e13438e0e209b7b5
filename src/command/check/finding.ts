/** Findings of `sluice check`: a severity, a code, a text and a place. */
import type { Location } from '../settings/locate.ts'

/** `error`: the Worker would refuse to start, or does not get what the file holds. `warning`: surely a mistake. `note`: worth knowing. */
export type Level = 'error' | 'warning' | 'note'

/** Level and meaning. */
export const CODES = {
  refused: ['error', 'the Worker would refuse to start'],
  json: ['error', 'JSON that cannot be read'],
  'misplaced-variable': ['error', 'a variable that stands outside of [vars], where the Worker does not get it'],
  'unknown-variable': ['warning', 'a name in capitals that is no variable: the Worker ignores it'],
  'secret-in-file': ['warning', 'a secret in Wrangler’s file'],
  'not-inherited': ['note', 'variables of [vars] that do not hold in the environment'],
  'example-upstream': ['warning', 'UPSTREAM_URL is still that of an example; an error with --deploy'],
  'secret-in-clear': ['warning', 'UPSTREAM_SECRET, where UPSTREAM_URL is not https'],
  'upstream-is-route': ['warning', 'UPSTREAM_URL leads back to the gateway'],
  'store-timeout': ['warning', 'STORE_TIMEOUT_MS is above UPSTREAM_TIMEOUT_MS'],
  exempt: ['warning', 'a policy, or a pattern of it, that never applies because an exemption covers it'],
  'unlimited-route': ['warning', 'a route that has a priority, and no limits'],
  'unlimited-rest': ['note', 'requests that nothing limits'],
  'priority-without-effect': ['warning', 'a priority where no policy has a reserve, and SHEDDING is off'],
  'implied-policy': ['warning', 'a policy that never refuses, because another one always does so before'],
  'implied-limit': ['warning', 'a limit that never refuses, because another one of its policy always does so before'],
  'reserve-for-nobody': ['warning', 'a reserve for critical requests, where none are'],
  'reserve-without-effect': ['warning', 'a reserve that keeps units from sheddable requests, where none are'],
  'reserve-leaves-little': ['warning', 'a reserve that leaves less than a tenth of the limit to the others'],
  'leases-without-effect': ['warning', 'LEASES, where no policy can use them, or STORE_TIMEOUT_MS is too long'],
  'local-share-without-effect': ['warning', 'LOCAL_SHARE, where no policy has on_store_error = "local"'],
  'label-without-effect': ['warning', 'CALLER_LABEL, where nobody is counted or logged'],
  'ambiguous-body': ['warning', 'a limit by form: or json: that an unreadable body gets around'],
  'untold-routes': ['note', 'costs that responses tell, of requests of which some are answered otherwise'],
  'untold-pointer': ['warning', 'a pointer in actual_cost that no response can tell'],
  'merged-parameters': ['note', 'a limit by query:, where a body may say something else, and no MERGED_PARAMETERS'],
  'method-in-form': ['note', 'a pattern for PUT, PATCH or DELETE that misses a form with _method'],
  unfolded: ['note', 'a limit on failures by form: or json: that counts apart what databases take for one account'],
  'many-readers': ['note', 'so many policies by query: or cookie: that a long request takes 10 ms to read'],
  'keys-elsewhere': ['note', 'policies by claims, and no keys that are known here'],
  'any-audience': ['note', 'policies by claims, and no JWT_AUDIENCE'],
  'rules-leave': ['warning', 'the first database of REDIS_SHARDS leaves, and rules are in it'],
  'moving-shards': ['note', 'databases of REDIS_SHARDS that join or leave'],
  shadow: ['note', 'MODE is "shadow": nothing is ever refused'],
} as const satisfies Readonly<Record<string, readonly [Level, string]>>

export interface Finding {
  readonly code: keyof typeof CODES
  readonly message: string
  /** Advice on how to mend it. */
  readonly hint?: string | undefined
  readonly at: Location
}
