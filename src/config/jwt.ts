import type { RequestPolicy, Source } from '../model/policy.ts'
import { type JwtSettings, MIN_SECRET_CHARACTERS } from '../request/identity/claims.ts'
import { ConfigError, HIDDEN } from './config-error.ts'
import type { PolicyTable } from './policy-schema.ts'
import { matching, parsed } from './schema.ts'

/** Plain http leads to this machine only: whoever can change the answer on its way makes tokens of any caller. */
const KEYS_URL = /^(?:https:\/\/|http:\/\/(?:localhost|127\.0\.0\.1|\[::1\])(?=[:/]))[^\s@#]+$/

export const jwksUrl = parsed('an https URL without credentials or fragment (http only to this machine)', (text) =>
  KEYS_URL.test(text) && URL.canParse(text) ? text : undefined,
)
export const jwtSecret = matching(
  new RegExp(`^.{${MIN_SECRET_CHARACTERS},}$`, 's'),
  `at least ${MIN_SECRET_CHARACTERS} characters`,
)
/** What a claim must be. */
export const jwtName = matching(/^\S{1,1000}$/, 'up to 1000 characters without spaces')

/** What settings are called: a variable, or an option and what is below it, with a dot between. */
export type JwtNames = Readonly<Record<keyof JwtValues, string>>

/** Policies, and where they are written. */
export interface Claimants {
  readonly policies: readonly RequestPolicy[]
  readonly tables: readonly PolicyTable[] | undefined
  /** The variable, or option, of the tables. */
  readonly name: string
  /** The option that holds for policies without a `by` of their own. */
  readonly by?: string
  /** Whether others may come later that ask for claims. */
  readonly areOpen?: boolean
  /** Where the name stands by which people know callers. */
  readonly label?: Source | undefined
}

export interface JwtValues {
  readonly jwksUrl?: string | undefined
  readonly secret?: string | undefined
  readonly issuer?: string | undefined
  readonly audience?: string | undefined
}

/**
 * How tokens are verified; undefined if nobody asks for claims.
 * @throws {ConfigError} if policies ask for claims and there are no keys, or two kinds of them, or nobody asks for them
 */
export function jwtSettingsOf(values: JwtValues, names: JwtNames, claimants: Claimants): JwtSettings | undefined {
  const { jwksUrl: url, secret, issuer, audience } = values
  const fail = (key: keyof JwtValues, expected: string): never => {
    const [variable = '', ...path] = names[key].split('.')
    throw new ConfigError(variable, expected, key === 'secret' ? HIDDEN : values[key], path)
  }
  const claim = firstClaim(claimants)
  const isAsked = claim !== undefined || claimants.areOpen === true
  if (isAsked && url !== undefined && secret !== undefined) fail('secret', `none beside ${names.jwksUrl}`)
  if (isAsked && url !== undefined) return { keys: { kind: 'jwks', url }, issuer, audience }
  if (isAsked && secret !== undefined) return { keys: { kind: 'secret', secret }, issuer, audience }
  if (claim) {
    throw new ConfigError(claim.variable, `${names.jwksUrl} or ${names.secret} beside a claim`, claim.text, claim.path)
  }
  for (const key of Object.keys(names) as (keyof JwtValues)[]) {
    if (values[key] !== undefined) fail(key, 'a policy with by or plan = "claim:<name>" beside it')
  }
  return undefined
}

/** The first use of a claim, and where it is written. */
function firstClaim({ policies, tables = [], name: variable, by = variable, label }: Claimants) {
  for (const { name, by: sources, plans } of policies) {
    const claim = [...sources, plans?.source].find((source) => source?.kind === 'claim')
    if (claim?.kind !== 'claim') continue
    const text = `claim:${claim.name}`
    const index = tables.findIndex((table) => table.name === name)
    const key = plans?.source === claim ? 'plan' : 'by'
    return tables[index]?.[key] ? { variable, path: [index, key], text } : { variable: by, path: [], text }
  }
  return label?.kind === 'claim' ? { variable: 'CALLER_LABEL', path: [], text: `claim:${label.name}` } : undefined
}
