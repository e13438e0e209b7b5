import * as v from 'valibot'
import type { Caller } from '../request/caller/caller.ts'
import {
  type CallerRules,
  type CountingConfig,
  rulesOfCaller,
  rulesOfDigest,
} from '../request/caller/rules-of-caller.ts'
import { CALLER_KIND_NAMES, type CallerKind } from '../request/identity/source.ts'
import { badInput, OperationError } from './operation.ts'

const fields = v.record(v.string(), v.string())

/** What a caller is named by. */
export const callerParts = {
  token: v.optional(v.pipe(v.string(), v.description('What it sends as `Authorization`, with or without its scheme.'))),
  ip: v.optional(v.pipe(v.string(), v.description('Its address.'))),
  header: v.optional(v.pipe(fields, v.description('Fields that it sends, by name.'))),
  query: v.optional(v.pipe(fields, v.description('Parameters of its query, by name.'))),
  cookie: v.optional(v.pipe(fields, v.description('Its cookies, by name.'))),
  form: v.optional(v.pipe(fields, v.description('Fields of its form, by name.'))),
  json: v.optional(v.pipe(fields, v.description('Members of its JSON body, by pointer such as `/user/id`.'))),
  claim: v.optional(
    v.pipe(
      v.record(v.string(), v.unknown()),
      v.description('What its token says, by name, whatever the token is: it is not verified here.'),
    ),
  ),
} as const satisfies Readonly<Record<CallerKind, unknown>>

/** Who a caller is. It stands in a body, because what is in a URL is easily kept in logs and histories. */
export const caller = v.pipe(
  v.strictObject({
    ...callerParts,
    route: v.optional(
      v.pipe(v.string(), v.description('A request such as `POST /login`: only the policies that apply to it.')),
    ),
    digest: v.optional(
      v.pipe(v.string(), v.description('Its identity as keys and logs have it, 22 letters, in place of all others.')),
    ),
  }),
  v.description('Who a caller is: all that is known of it, or a digest.'),
)

export type CallerInput = v.InferOutput<typeof caller>

/** A caller, and which policies it is about. */
export const asked = v.strictObject({
  caller,
  policies: v.optional(v.pipe(v.array(v.string()), v.description('Only these.'))),
})

/** Policies that say nothing of a caller. */
export const leftOut = v.array(
  v.strictObject({
    policy: v.string(),
    why: v.string(),
    needs: v.pipe(
      v.nullable(v.picklist([...CALLER_KIND_NAMES, 'route'])),
      v.description('What of the caller would have to be said; null: that would not help.'),
    ),
  }),
)

/** Under which keys it is counted. @throws {OperationError | CallerError} if it tells nothing, or too much */
export async function rulesOf(
  config: CountingConfig,
  { caller, policies: names }: v.InferOutput<typeof asked>,
): Promise<CallerRules> {
  const known = config.policies.map(({ name }) => name)
  const unknown = names?.findIndex((name) => !known.includes(name)) ?? -1
  if (unknown >= 0) throw new OperationError(badInput(`policies.${unknown}`, `one of ${known.join(', ')}`))
  const { rules, leftOut } = await rulesOfAll(config, caller)
  const isAsked = ({ policy }: { readonly policy: { readonly name: string } }) => names?.includes(policy.name) ?? true
  return { rules: rules.filter(isAsked), leftOut: leftOut.filter(isAsked) }
}

/** What is told of policies that say nothing of it. */
export function toldLeftOut({ leftOut: all }: CallerRules): v.InferOutput<typeof leftOut> {
  return all.map(({ policy, why, needs = null }) => ({ policy: policy.name, why, needs }))
}

/** What is known of it, beside a digest. */
export function callerOf({ token, ip, route, claim, ...named }: CallerInput): Caller {
  const pairs = (kind: 'header' | 'query' | 'cookie' | 'form' | 'json') => named[kind] && Object.entries(named[kind])
  return {
    ...{ token, ip, route, claim, header: pairs('header'), query: pairs('query') },
    ...{ cookie: pairs('cookie'), form: pairs('form'), json: pairs('json') },
  }
}

function rulesOfAll(config: CountingConfig, { digest, ...parts }: CallerInput): Promise<CallerRules> {
  const known = Object.values(parts).filter((part) => part !== undefined)
  if (digest !== undefined) {
    if (known.length === 0) return rulesOfDigest(config, digest)
    throw new OperationError(badInput('caller', 'digest alone: it takes the place of all that identifies a caller'))
  }
  if (known.length === 0) {
    throw new OperationError(badInput('caller', `one of ${CALLER_KIND_NAMES.join(', ')}, route and digest`))
  }
  return rulesOfCaller(config, callerOf(parts))
}
