import * as v from 'valibot'
import type { Config } from '../config/load-config.ts'
import { requestOf } from '../request/caller/caller.ts'
import { claimIn } from '../request/identity/claims.ts'
import { type Target, targetOf } from '../rules/target.ts'
import { callerOf } from './caller-schema.ts'
import { badInput, OperationError } from './operation.ts'

const fields = v.record(v.string(), v.string())

/** Who is meant by a block, an allow or an override: exactly one way to say it. */
export const who = v.pipe(
  v.strictObject({
    token: v.optional(v.pipe(v.string(), v.description('What the caller sends as `Authorization`.'))),
    ip: v.optional(v.pipe(v.string(), v.description('Its address.'))),
    header: v.optional(v.pipe(fields, v.description('One field that it sends, by name.'))),
    query: v.optional(v.pipe(fields, v.description('One parameter of its query, by name.'))),
    claim: v.optional(
      v.pipe(
        v.record(v.string(), v.unknown()),
        v.description('One claim of its token, by name or pointer such as `/account/plan`: it is not verified here.'),
      ),
    ),
    digest: v.optional(v.pipe(v.string(), v.description('As keys and logs have it; with `by`, of that alone.'))),
    by: v.optional(v.pipe(v.string(), v.description('With `digest` or `value`: such as `header:x-tenant`.'))),
    value: v.optional(v.pipe(v.string(), v.description('With `by`: a value with one `*`.'))),
    cidr: v.optional(v.pipe(v.string(), v.description('A network, such as `203.0.113.0/24`.'))),
    country: v.optional(v.pipe(v.string(), v.description('By its two letters; for a block.'))),
    asn: v.optional(v.pipe(v.number(), v.description('Number of a network operator; for a block.'))),
  }),
  v.description('Who is meant. What a caller sends is kept as its digest only.'),
)

type Who = v.InferOutput<typeof who>

/** @throws {OperationError | CallerError} if that is nobody */
export async function targetOfWho(
  { token, ip, header, query, claim, ...target }: Who,
  config: Config,
): Promise<Target> {
  const said = { token, ip, header, query, claim }
  const [first, ...others] = Object.entries(said).filter(([, value]) => value !== undefined)
  if (!first) {
    if (Object.values(target).some((value) => value !== undefined)) return target
    const ways = Object.keys(who.pipe[0].entries).join(', ')
    throw new OperationError(badInput('who', `one of ${ways}`))
  }
  if (others.length > 0 || Object.values(target).some((value) => value !== undefined)) {
    throw new OperationError(badInput('who', 'one way to say who is meant'))
  }
  const [kind] = first as [keyof typeof said, unknown]
  const found = await targetOf(byOf(kind, said), requestOf(callerOf({ token, ip, header, query })), {
    ...config,
    // Whichever claim is asked for, it is the one that was named.
    readClaim: () => claimIn(claim ?? {}, Object.keys(claim ?? {})),
  })
  if (found) return found
  throw new OperationError(badInput(`who.${kind}`, 'what a caller can be known by, in one way only'))
}

/** @throws {OperationError} if there is more than one field */
function byOf(kind: keyof Who, said: Pick<Who, 'token' | 'ip' | 'header' | 'query' | 'claim'>): string {
  if (kind !== 'header' && kind !== 'query' && kind !== 'claim') return kind
  const [name, ...others] = Object.keys(said[kind] ?? {})
  if (name === undefined || others.length > 0) throw new OperationError(badInput(`who.${kind}`, 'one name'))
  return `${kind}:${name}`
}
