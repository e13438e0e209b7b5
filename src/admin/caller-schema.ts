import * as v from 'valibot'
import type { Caller } from '../request/caller/caller.ts'
import {
  type CallerCharges,
  findCallerCharges,
  findDigestCharges,
  type SkippedPolicy,
} from '../request/caller/caller-charges.ts'
import { CALLER_KIND_NAMES, type CallerKind } from '../request/identity/source.ts'
import { describe } from '../statistics/schema.ts'
import type * as answers from './answers.ts'
import { type ActiveRules, readActiveRules } from './change-rules.ts'
import { type AdminContext, InputError } from './operation.ts'

const fields = v.record(v.string(), v.string())

export const callerParts = {
  token: v.optional(describe(v.string(), 'What it sends as `Authorization`, with or without its scheme.')),
  ip: v.optional(describe(v.string(), 'Its address.')),
  header: v.optional(describe(fields, 'Fields that it sends, by name.')),
  query: v.optional(describe(fields, 'Parameters of its query, by name.')),
  cookie: v.optional(describe(fields, 'Its cookies, by name.')),
  form: v.optional(describe(fields, 'Fields of its form, by name.')),
  json: v.optional(describe(fields, 'Members of its JSON body, by pointer such as `/user/id`.')),
  claim: v.optional(describe(v.record(v.string(), v.unknown()), 'Claims of its token, by name: not verified here.')),
} as const satisfies Readonly<Record<CallerKind, unknown>>

/** A caller is named in a body, because URLs are easily kept in logs and histories. */
export const caller = describe(
  v.strictObject({
    ...callerParts,
    route: v.optional(describe(v.string(), 'A request such as `POST /login`: only the policies that apply to it.')),
    digest: v.optional(describe(v.string(), 'Its identity as in keys and logs, 22 characters; alone.')),
  }),
  'Who a caller is: all that is known of it, or a digest.',
)

export type CallerInput = v.InferOutput<typeof caller>

export const callerQuery = v.strictObject({
  caller,
  policies: v.optional(describe(v.array(v.string()), 'Only these.')),
})

/** @throws {OperationError | CallerError} if the query names no caller, or too much */
export async function findCharges(
  context: AdminContext,
  { caller, policies: names }: v.InferOutput<typeof callerQuery>,
): Promise<CallerCharges & { readonly active: ActiveRules }> {
  const active = await readActiveRules(context)
  const known = active.policies.map(({ name }) => name)
  const unknown = names?.findIndex((name) => !known.includes(name)) ?? -1
  if (unknown >= 0) throw new InputError(['policies', `${unknown}`], `one of ${known.join(', ')}`)
  const { digest, ...parts } = caller
  const isNamed = Object.values(parts).some((part) => part !== undefined)
  if (digest !== undefined && isNamed) {
    throw new InputError(['caller'], 'digest alone: it takes the place of all that identifies a caller')
  }
  if (digest === undefined && !isNamed) {
    throw new InputError(['caller'], `one of ${CALLER_KIND_NAMES.join(', ')}, route and digest`)
  }
  const config = { ...context.config, policies: active.policies }
  const found = digest === undefined ? findCallerCharges(config, toCaller(parts)) : findDigestCharges(config, digest)
  const { charges, skipped } = await found
  const isQueried = ({ policy }: Pick<SkippedPolicy, 'policy'>) => names?.includes(policy.name) ?? true
  return { active, charges: charges.filter(isQueried), skipped: skipped.filter(isQueried) }
}

export function toSkipped(skipped: readonly SkippedPolicy[]): v.InferOutput<typeof answers.skipped> {
  return skipped.map(({ policy, reason, needs = null }) => ({ policy: policy.name, reason, needs }))
}

export function toCaller({ digest: _, header, query, cookie, form, json, ...others }: CallerInput): Caller {
  const toPairs = (named: typeof header) => named && Object.entries(named)
  const [headers, parameters, cookies, fields, members] = [header, query, cookie, form, json].map(toPairs)
  return { ...others, header: headers, query: parameters, cookie: cookies, form: fields, json: members }
}
