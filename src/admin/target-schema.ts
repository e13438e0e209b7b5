import * as v from 'valibot'
import type { RequestPolicy } from '../model/policy.ts'
import { createRequest } from '../request/caller/caller.ts'
import { claimIn } from '../request/identity/claims.ts'
import { createDigest } from '../request/identity/digest.ts'
import { readIdentity } from '../request/identity/identify.ts'
import {
  CALLER_KIND_NAMES,
  type CallerKind,
  formatSource,
  isShared,
  parseBy,
  SOURCE_KINDS,
} from '../request/identity/source.ts'
import { createRuleTarget, type RuleTarget } from '../rules/target.ts'
import { readRefusedCallers } from '../statistics/read-statistics.ts'
import { describe } from '../statistics/schema.ts'
import { KEPT_MS } from '../store/counters.ts'
import { callerParts, toCaller } from './caller-schema.ts'
import { readActiveRules } from './change-rules.ts'
import { type AdminContext, InputError } from './operation.ts'

export const target = describe(
  v.strictObject({
    ...callerParts,
    digest: v.optional(describe(v.string(), 'As keys and logs have it; with `by`, of that alone.')),
    by: v.optional(describe(v.string(), 'With `digest` or `value`: such as `header:x-tenant`.')),
    value: v.optional(describe(v.string(), 'With `by`: a value with one `*`.')),
    cidr: v.optional(describe(v.string(), 'A network, such as `203.0.113.0/24`.')),
    country: v.optional(describe(v.string(), 'By its two letters; for a block.')),
    asn: v.optional(describe(v.number(), 'Number of a network operator; for a block.')),
  }),
  'Named in one way. Stored as a digest only. A form field or a JSON member must be what a policy counts by alone.',
)

type TargetInput = v.InferOutput<typeof target>

const TARGET_FIELDS = Object.keys(target.entries).join(', ')

/** @throws {OperationError | CallerError} if that is nobody @throws {StoreError} */
export async function resolveTarget(input: TargetInput, context: AdminContext): Promise<RuleTarget> {
  const { token, ip, header, query, cookie, form, json, claim, ...target } = input
  const parts = { token, ip, header, query, cookie, form, json, claim } satisfies Readonly<Record<CallerKind, unknown>>
  const [kind, ...others] = CALLER_KIND_NAMES.filter((each) => parts[each] !== undefined)
  const isTarget = Object.values(target).some((value) => value !== undefined)
  if (!kind) {
    if (isTarget) return target
    throw new InputError(['target'], `one of ${TARGET_FIELDS}`)
  }
  if (others.length > 0 || isTarget) throw new InputError(['target'], 'one way to say who is meant')
  const by = readBy(kind, input)
  const request = createRequest(toCaller(parts))
  // The only claim is the one that was named.
  const readClaim = () => claimIn(claim ?? {}, Object.keys(claim ?? {}))
  const found = SOURCE_KINDS[kind].isInBody
    ? await findTargetInBody(kind, by, request, context)
    : await createRuleTarget(by, request, { ...context.config, readClaim })
  if (found) return found
  throw new InputError(['target', kind], 'what a caller can be known by, in one way only')
}

/** Names the caller by the digest that a policy makes of it. @throws {OperationError} if none does */
async function findTargetInBody(
  kind: CallerKind,
  by: string,
  request: Request,
  context: AdminContext,
): Promise<RuleTarget | undefined> {
  const { policies } = await readActiveRules(context)
  const isCounted = policies.some((policy) => policy.by.length === 1 && policy.by.map(formatSource)[0] === by)
  const [source] = parseBy(by) ?? []
  if (!isCounted || !source) {
    const expected = 'what a policy counts by alone, since rules are looked up before a body is read'
    throw new InputError(['target', kind], expected)
  }
  const { ipv6Prefix, identitySecret } = context.config
  const identity = await readIdentity([source], { request, route: '', ipv6Prefix }, { kind: 'deny', status: 401 })
  return 'kind' in identity ? undefined : { digest: createDigest(identitySecret)(identity) }
}

function readBy(kind: CallerKind, input: TargetInput): string {
  if (kind === 'token' || kind === 'ip') return kind
  const [name, ...others] = Object.keys(input[kind] ?? {})
  if (name === undefined || others.length > 0) throw new InputError(['target', kind], 'one name')
  return `${kind}:${name}`
}

/** Checks for the digest of a policy that counts for everyone: no rule about a caller may name it. */
export async function shared(digest: string, context: AdminContext): Promise<boolean> {
  const { config, counters, now } = context
  const digestOf = createDigest(config.identitySecret)
  const { policies } = await readActiveRules(context)
  const shared = [...policies, ...config.policies].filter(({ by }) => isShared(by))
  if (shared.some((policy) => listIdentities(policy).some((identity) => digestOf(identity) === digest))) return true
  // Policies that count by path have no list of digests: only those that have refused somebody are known.
  const names = new Set(shared.filter(isByPath).map(({ name }) => name))
  if (!counters || names.size === 0) return false
  const periods = await counters.read('hour', now() - KEPT_MS.hour, now() + 1)
  return periods.some((period) =>
    readRefusedCallers(period).callers.some((caller) => caller.digest === digest && names.has(caller.policy)),
  )
}

function listIdentities(policy: RequestPolicy): readonly (readonly string[])[] {
  const { by, match } = policy
  if (isByPath(policy)) return []
  const routes = match?.map(({ method, path }) => `${method} ${path}`) ?? ['']
  return routes.map((route) => by.flatMap(({ kind }) => [kind, kind === 'route' ? route : '']))
}

function isByPath({ by, match }: RequestPolicy): boolean {
  return match === undefined && by.some(({ kind }) => kind === 'route')
}
