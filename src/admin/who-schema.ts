import * as v from 'valibot'
import { requestOf } from '../request/caller/caller.ts'
import { claimIn } from '../request/identity/claims.ts'
import { createDigest } from '../request/identity/digest.ts'
import { identify } from '../request/identity/identify.ts'
import { CALLER_KIND_NAMES, type CallerKind, nameOfSource, parseBy, SOURCE_KINDS } from '../request/identity/source.ts'
import { type Target, targetOf } from '../rules/target.ts'
import { callerOf, callerParts } from './caller-schema.ts'
import { inForce } from './in-force.ts'
import { badInput, type Operated, OperationError } from './operation.ts'

/** Who is meant by a block, an allow or an override: exactly one way to say it. */
export const who = v.pipe(
  v.strictObject({
    ...callerParts,
    digest: v.optional(v.pipe(v.string(), v.description('As keys and logs have it; with `by`, of that alone.'))),
    by: v.optional(v.pipe(v.string(), v.description('With `digest` or `value`: such as `header:x-tenant`.'))),
    value: v.optional(v.pipe(v.string(), v.description('With `by`: a value with one `*`.'))),
    cidr: v.optional(v.pipe(v.string(), v.description('A network, such as `203.0.113.0/24`.'))),
    country: v.optional(v.pipe(v.string(), v.description('By its two letters; for a block.'))),
    asn: v.optional(v.pipe(v.number(), v.description('Number of a network operator; for a block.'))),
  }),
  v.description(
    'Who is meant, of what a caller sends by one thing with one name. It is kept as its digest only. What is in a body, a form or JSON, must be what a policy counts by alone.',
  ),
)

type Who = v.InferOutput<typeof who>

const WAYS = Object.keys(who.pipe[0].entries).join(', ')

/** @throws {OperationError | CallerError} if that is nobody @throws {StoreError} */
export async function targetOfWho(who: Who, operated: Operated): Promise<Target> {
  const { token, ip, header, query, cookie, form, json, claim, ...target } = who
  const said = { token, ip, header, query, cookie, form, json, claim } satisfies Readonly<Record<CallerKind, unknown>>
  const [kind, ...others] = CALLER_KIND_NAMES.filter((each) => said[each] !== undefined)
  const isTarget = Object.values(target).some((value) => value !== undefined)
  if (!kind) {
    if (isTarget) return target
    throw new OperationError(badInput('who', `one of ${WAYS}`))
  }
  if (others.length > 0 || isTarget) throw new OperationError(badInput('who', 'one way to say who is meant'))
  const by = byOf(kind, who)
  const request = requestOf(callerOf(said))
  // Whichever claim is asked for, it is the one that was named.
  const readClaim = () => claimIn(claim ?? {}, Object.keys(claim ?? {}))
  const found = SOURCE_KINDS[kind].isInBody
    ? await targetInBody(kind, by, request, operated)
    : await targetOf(by, request, { ...operated.config, readClaim })
  if (found) return found
  throw new OperationError(badInput(`who.${kind}`, 'what a caller can be known by, in one way only'))
}

/** By the digest that a policy makes of it, wherever that applies. @throws {OperationError} if none does */
async function targetInBody(
  kind: CallerKind,
  by: string,
  request: Request,
  operated: Operated,
): Promise<Target | undefined> {
  const { policies } = await inForce(operated)
  const isCounted = policies.some((policy) => policy.by.length === 1 && policy.by.map(nameOfSource)[0] === by)
  const [source] = parseBy(by) ?? []
  if (!isCounted || !source) {
    const expected = 'what a policy counts by alone, since rules are looked up before a body is read'
    throw new OperationError(badInput(`who.${kind}`, expected))
  }
  const { ipv6Prefix, identitySecret } = operated.config
  const identity = await identify([source], { request, route: '', ipv6Prefix }, { kind: 'deny', status: 401 })
  return 'kind' in identity ? undefined : { digest: createDigest(identitySecret)(identity) }
}

/** @throws {OperationError} if there is more than one field */
function byOf(kind: CallerKind, said: Who): string {
  if (kind === 'token' || kind === 'ip') return kind
  const [name, ...others] = Object.keys(said[kind] ?? {})
  if (name === undefined || others.length > 0) throw new OperationError(badInput(`who.${kind}`, 'one name'))
  return `${kind}:${name}`
}
