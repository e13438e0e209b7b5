/** The last refusals and failures, one by one: what they are stored as, and how they are read. */
import * as v from 'valibot'
import { isShared } from '../../core/model/identity-source.ts'
import type { Period } from '../../core/store/counters.ts'
import { NO_SKETCH, type Sketch } from '../../core/store/sketches.ts'
import type { Observed } from '../../http/response/exchange.ts'
import { findStatus as findOwnStatus } from '../../http/response/refusal.ts'
import { describe } from '../api/schema.ts'
import { readCountry } from './label.ts'
import { EVERYWHERE } from './metrics.ts'
import { findRefusedCallers, findRefusingLimits } from './outcomes.ts'

/** Name of their sketch: the store keeps those that came last, as they rank above all before. */
export const RECENT = 'recent'

/** An isolate sends at most so many at once: of a flood by one caller, its latest. */
const MAX_SENT = 20
const MAX_PART_CHARACTERS = 80
/** Names with a smaller number rank first, so the time counts down. */
const END_MS = 2 ** 43

const text = v.nullable(v.string())

export const recentSchema = describe(
  v.array(
    v.strictObject({
      atMs: describe(v.number(), 'By the clock of its isolate.'),
      status: describe(v.nullable(v.number()), 'Of the response, if it is known.'),
      outcome: describe(v.string(), 'As in `requests`; or `upstream`: the API answered so, or not at all.'),
      method: text,
      route: describe(text, 'The pattern that matched; `*`: everything.'),
      policy: describe(text, 'Which has refused it.'),
      digest: describe(text, 'Of the caller.'),
      rule: describe(text, 'Whom the block is about.'),
      country: text,
    }),
  ),
  'The last refusals and failures, the latest first: of each 20 s, isolate, caller, policy and outcome one, at most 50.',
)

export type Recent = v.InferOutput<typeof recentSchema>[number]

/** The last refusals and failures of an isolate. */
export class RecentRefusals {
  readonly #byKind = new Map<string, string>()

  add(atMs: number, event: Omit<Recent, 'atMs'>): void {
    const { status, outcome, method, route, policy, digest, rule, country } = event
    const parts = [status, outcome, method, route, policy, digest, rule, country].map((part) =>
      encodeURIComponent(`${part ?? ''}`.slice(0, MAX_PART_CHARACTERS).toWellFormed()),
    )
    const kind = [outcome, policy, digest, rule, route].join()
    // The latest of its kind comes last.
    this.#byKind.delete(kind)
    this.#byKind.set(kind, `${(END_MS - Math.round(atMs)).toString(36)}|${parts.join('|')}`)
    const [oldest = ''] = this.#byKind.keys()
    if (this.#byKind.size > MAX_SENT) this.#byKind.delete(oldest)
  }

  toSketch(): Sketch {
    return { items: Array.from(this.#byKind.values(), (name) => ({ name, count: 1, over: 0 })), floor: 0 }
  }
}

/** @param status of the response; undefined: that of the verdict */
export function describeRequest({ request, verdict, trace }: Observed, status?: number): Omit<Recent, 'atMs'> {
  const [match] = trace.matches
  const [caller] = findRefusedCallers({ verdict, trace })
  const [limit] = findRefusingLimits(verdict)
  // What counts for everyone tells nothing of who it was.
  const own = trace.charges.filter(({ policy }) => !isShared(policy.by))
  const charge = own.find(({ policy }) => policy.name === caller?.policy) ?? own[0]
  const named = verdict.outcome === 'unidentified' ? verdict.policy.name : (caller?.policy ?? limit?.policy.name)
  return {
    status: status ?? findStatus(verdict),
    outcome: status === undefined ? verdict.outcome : 'upstream',
    method: /^[A-Z]{1,12}$/.test(request.method) ? request.method : null,
    route: match ? (match.route ?? EVERYWHERE) : null,
    policy: status === undefined ? (named ?? null) : null,
    digest: charge?.digest ?? null,
    rule: verdict.outcome === 'blocked' ? (verdict.rule ?? null) : null,
    country: readCountry(request) ?? null,
  }
}

const STATUSES = {
  admitted: null,
  shed: 503,
  ambiguous_path: 400,
  unavailable: 503,
} as const satisfies Record<string, number | null>

function findStatus(verdict: Observed['verdict']): number | null {
  if ('status' in verdict) return verdict.status
  return 'violated' in verdict ? findOwnStatus(verdict) : STATUSES[verdict.outcome]
}

/** @param digests of one caller; undefined: all @returns the latest first */
export function readRecent({ sketches }: Pick<Period, 'sketches'>, digests?: ReadonlySet<string>): readonly Recent[] {
  const { items } = sketches.get(RECENT) ?? NO_SKETCH
  const events = items.map(({ name }): Recent => {
    const [left = '', ...parts] = name.split('|')
    const [status, outcome = '', method, route, policy, digest, rule, country] = parts.map(
      (part) => decodeURIComponent(part) || null,
    )
    const rest = { method, route, policy, digest, rule, country }
    const known = Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, value ?? null]))
    const atMs = END_MS - Number.parseInt(left, 36)
    return { atMs, status: status ? Number(status) : null, outcome: outcome ?? '', ...known } as Recent
  })
  return events
    .filter(({ digest }) => digests === undefined || (digest !== null && digests.has(digest)))
    .toSorted((a, b) => b.atMs - a.atMs)
}
