/** How a caller or the target of a rule is written in a body. */
import * as v from 'valibot'
import {
  CALLER_KIND_NAMES,
  type CallerKind,
  formatSource,
  isCallerKind,
  isShared,
  PAIR_KIND_NAMES,
  SOURCE_KINDS,
} from '../../core/model/identity-source.ts'
import { mapNames } from '../../core/runtime/lists.ts'
import { KEPT_MS } from '../../core/store/counters.ts'
import { findClaim } from '../../http/request/identity/claims.ts'
import { InputError } from '../api/operation.ts'
import { describe } from '../api/schema.ts'
import { createRequest } from '../callers/caller.ts'
import {
  type CallerCharges,
  findCallerCharges,
  findDigestCharges,
  type SkippedPolicy,
} from '../callers/caller-charges.ts'
import { type ActiveRules, readActiveRules } from '../rules/active-rules.ts'
import { createRuleTarget, type RuleTarget } from '../rules/target.ts'
import { readRefusedCallers } from '../statistics/read-statistics.ts'
import type * as answers from './answers.ts'
import type { AdminContext } from './operation.ts'

const toPairs = v.transform((texts: Readonly<Record<string, string>>) => Object.entries(texts))
const pairs = v.optional(v.pipe(v.record(v.string(), v.string()), toPairs))
const pairParts = mapNames(PAIR_KIND_NAMES, (kind) => {
  const { noun, name } = SOURCE_KINDS[kind]
  return describe(pairs, `Its ${noun}s, by ${name}.`)
})

const callerParts = {
  token: v.optional(describe(v.string(), 'What it sends as `Authorization`, with or without its scheme.')),
  ip: v.optional(describe(v.string(), 'Its address.')),
  ...pairParts,
  claim: v.optional(describe(v.record(v.string(), v.unknown()), 'Claims of its token, by name: not verified here.')),
} as const satisfies Readonly<Record<CallerKind, unknown>>

/** A caller is named in a body, because URLs are easily kept in logs and histories. */
export const caller = describe(
  v.strictObject({
    ...callerParts,
    route: v.optional(describe(v.string(), 'A request such as `POST /login`: only policies that apply to it.')),
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
  const active = await readActiveRules(context.rulesEngine, context.config)
  const known = active.policies.map(({ name }) => name)
  const unknown = names?.findIndex((name) => !known.includes(name)) ?? -1
  if (unknown >= 0) throw new InputError(['policies', `${unknown}`], `expected one of ${known.join(', ')}`)
  const { digest, ...parts } = caller
  const isNamed = Object.values(parts).some((part) => part !== undefined)
  if (digest !== undefined && isNamed) {
    throw new InputError(['caller'], 'expected digest alone, without other attributes')
  }
  if (digest === undefined && !isNamed) {
    throw new InputError(['caller'], `expected one of ${CALLER_KIND_NAMES.join(', ')}, route and digest`)
  }
  const config = { ...context.config, policies: active.policies }
  const found = digest === undefined ? findCallerCharges(config, parts) : findDigestCharges(config, digest)
  const { charges, skipped } = await found
  const isQueried = ({ policy }: Pick<SkippedPolicy, 'policy'>) => names?.includes(policy.name) ?? true
  return { active, charges: charges.filter(isQueried), skipped: skipped.filter(isQueried) }
}

export function toSkipped(skipped: readonly SkippedPolicy[]): v.InferOutput<typeof answers.skipped> {
  return skipped.map(({ policy, reason, needs = null }) => ({ policy: policy.name, reason, needs }))
}

export const target = describe(
  v.strictObject({
    ...callerParts,
    digest: v.optional(describe(v.string(), 'As in keys and logs; with `by`, of its value alone.')),
    by: v.optional(describe(v.string(), 'With `digest` or `value`: such as `header:x-tenant`.')),
    value: v.optional(describe(v.string(), 'With `by`: a value with one `*`.')),
    cidr: v.optional(describe(v.string(), 'A network, such as `203.0.113.0/24`.')),
    country: v.optional(describe(v.string(), 'By its two letters; for a block.')),
    asn: v.optional(describe(v.number(), 'Number of a network operator; for a block.')),
  }),
  'Named in one way. Stored as a digest only. A form field or a JSON member must be what a policy counts by alone.',
)

type TargetInput = v.InferOutput<typeof target>

/** @throws {OperationError | CallerError} if that is nobody @throws {StoreError} */
export async function resolveTarget(input: TargetInput, context: AdminContext): Promise<RuleTarget> {
  const others: RuleTarget = Object.fromEntries(Object.entries(input).filter(([name]) => !isCallerKind(name)))
  const [kind, ...more] = CALLER_KIND_NAMES.filter((each) => input[each] !== undefined)
  const isTarget = Object.values(others).some((value) => value !== undefined)
  if (!kind) {
    if (isTarget) return others
    throw new InputError(['target'], `expected one of ${Object.keys(target.entries).join(', ')}`)
  }
  if (more.length > 0 || isTarget) throw new InputError(['target'], 'expected exactly one target')
  const by = readBy(kind, input)
  const request = createRequest(input)
  let folds: readonly (string | undefined)[] = [undefined]
  if (SOURCE_KINDS[kind].isInBody) {
    const { policies } = await readActiveRules(context.rulesEngine, context.config)
    const counting = policies.filter((policy) => policy.by.length === 1 && policy.by.map(formatSource)[0] === by)
    const expected = 'what a policy counts by alone, since rules are looked up before a body is read'
    if (counting.length === 0) throw new InputError(['target', kind], `expected ${expected}`)
    folds = counting.map(({ fold }) => fold)
  }
  // The only claim is the one that was named.
  const readClaim = () => findClaim(input.claim ?? {}, Object.keys(input.claim ?? {}))
  const create = (fold: string | undefined) =>
    createRuleTarget(by, request.clone() as Request, { ...context.config, readClaim, fold })
  const [found, ...otherwise] = await Promise.all(folds.map(create))
  if (!found) throw new InputError(['target', kind], 'expected what a caller can be known by, in one way only')
  if (otherwise.every((each) => each?.digest === found.digest)) return found
  throw new InputError(['target', kind], 'expected a digest in its place, since policies fold this value differently')
}

function readBy(kind: CallerKind, input: TargetInput): string {
  if (kind === 'token' || kind === 'ip') return kind
  const [[name] = [], ...others] = kind === 'claim' ? Object.entries(input.claim ?? {}) : (input[kind] ?? [])
  if (name === undefined || others.length > 0) throw new InputError(['target', kind], 'expected one name')
  return `${kind}:${name}`
}

/** Checks for the digest of a policy that counts for everyone: no rule about a caller may name it. */
export async function isSharedDigest(digest: string, context: AdminContext): Promise<boolean> {
  const { config, rulesEngine, counters, now } = context
  const { policies } = await readActiveRules(rulesEngine, config)
  const shared = [...policies, ...config.policies].filter(({ by }) => isShared(by))
  const { charges, skipped } = await findCallerCharges({ ...config, policies: shared }, {})
  if (charges.some((charge) => charge.digest === digest)) return true
  // Policies that count by path have no list of digests: only those that have refused somebody are known.
  const names = new Set(skipped.map(({ policy }) => policy.name))
  if (!counters || names.size === 0) return false
  const periods = await counters.read('hour', now() - KEPT_MS.hour, now() + 1)
  return periods.some((period) =>
    readRefusedCallers(period).callers.some((caller) => caller.digest === digest && names.has(caller.policy)),
  )
}
