import type { RequestPolicy, Source } from '../model/policy.ts'
import type { JwtSettings } from '../request/identity/claims.ts'
import { HIDDEN, OptionError } from './option-error.ts'
import type { PolicyTable } from './policy-keys.ts'

export interface JwtValues {
  readonly jwksUrl?: string | undefined
  readonly secret?: string | undefined
  readonly issuer?: string | undefined
  readonly audience?: string | undefined
}

/** What settings are called: a variable, or an option and what is below it. */
export type JwtNames = Readonly<Record<keyof JwtValues, readonly string[]>>

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

/**
 * How tokens are verified; undefined if nobody asks for claims.
 * @throws {OptionError} if policies ask for claims and there are no keys, or two kinds of them, or nobody asks for them
 */
export function readJwtSettings(values: JwtValues, names: JwtNames, claimants: Claimants): JwtSettings | undefined {
  const { jwksUrl: url, secret, issuer, audience } = values
  const fail = (key: keyof JwtValues, expected: string): never => {
    throw new OptionError(names[key], expected, key === 'secret' ? HIDDEN : values[key])
  }
  const claim = firstClaim(claimants)
  const [urlName, secretName] = [names.jwksUrl.join('.'), names.secret.join('.')]
  if (claim || claimants.areOpen) {
    if (url !== undefined && secret !== undefined) fail('secret', `none beside ${urlName}`)
    if (url !== undefined) return { keys: { kind: 'jwks', url }, issuer, audience }
    if (secret !== undefined) return { keys: { kind: 'secret', secret }, issuer, audience }
  }
  if (claim) throw new OptionError(claim.where, `${urlName} or ${secretName} beside a claim`, claim.text)
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
    const index = tables.findIndex((table) => table.name === name)
    const key = plans?.source === claim ? 'plan' : 'by'
    return { where: tables[index]?.[key] ? [variable, index, key] : [by], text: `claim:${claim.name}` }
  }
  return label?.kind === 'claim' ? { where: ['CALLER_LABEL'], text: `claim:${label.name}` } : undefined
}
