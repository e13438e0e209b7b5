/** The lines on top of Overview: each says what is known, and says so where something is not known. */
import { listNames } from '../src/core/runtime/lists.ts'
import type { Counted, Numbers, Policies, Status } from './answers.ts'
import { findLast, sumRefused, sumTotal } from './figures.ts'
import { describeMinute, formatCount, formatShare, formatSpan, formatStore } from './words.ts'

export interface Sign {
  readonly name: string
  readonly text: string
  readonly tone: Tone
}

/** `plain` is neither well nor ill; `unknown` has not been answered yet. */
export type Tone = 'good' | 'warn' | 'bad' | 'plain' | 'unknown'

/** Answers of the gateway so far; undefined: it has not answered yet. */
export interface Known {
  readonly status: Status | undefined
  readonly active: Policies | undefined
  readonly counted: Counted | undefined
  /** Counts that begin a period earlier, for comparison. */
  readonly longer: Counted | undefined
  /** Why nothing was counted; undefined if that is not known. */
  readonly problem: string | undefined
}

export function listSigns({ status, active, counted, longer, problem }: Known): readonly Sign[] {
  return [
    ...(status ? listStoreSigns(status) : [{ name: 'Store', tone: 'unknown', text: 'loading' } as const]),
    describeRules(active),
    ...(counted ? listCountedSigns(counted, longer) : [describeUncounted(problem)]),
  ]
}

/** The worst of the tones. @returns `good` only if all is known */
export function findTone(signs: readonly Sign[]): Exclude<Tone, 'plain'> {
  return (['bad', 'warn', 'unknown'] as const).find((tone) => signs.some((sign) => sign.tone === tone)) ?? 'good'
}

function listStoreSigns({ store, shedLevel }: Status): Sign[] {
  const name = formatStore(store)
  const tookMs = formatSpan(store.rttMs ?? 0)
  const STATES = {
    answers: ['good', `${name} answers in ${tookMs}`],
    slow: ['bad', `${name} answers in ${tookMs}, and decisions wait for ${formatSpan(store.timeoutMs)} only`],
    failing: ['bad', `${name} answers, but decisions have failed`],
    unavailable: ['bad', `${name} is unavailable`],
    unknown: ['unknown', `${name} has not answered yet`],
  } as const satisfies Record<typeof store.state, readonly [Tone, string]>
  const [tone, text] = STATES[store.state]
  const fallback = { good: 'not in use', bad: 'in use', unknown: 'not known' }[tone]
  return [
    { name: 'Store', tone, text },
    { name: 'Fallback', tone, text: fallback },
    ...(shedLevel !== null && shedLevel > 0
      ? [{ name: 'Shedding', tone: 'warn', text: `level ${shedLevel.toFixed(2)}` } as const]
      : []),
  ]
}

function describeRules(active: Policies | undefined): Sign {
  const { state = 'loading', version = 0 } = active?.active ?? {}
  const STATES = {
    loading: ['unknown', 'loading'],
    deployed: ['good', 'none'],
    active: ['good', `version ${version}`],
    invalid: ['bad', `the newest cannot be followed; version ${version} is enforced`],
    lost: ['bad', `gone from the store; version ${version} is still enforced here`],
    unknown: ['unknown', `version ${version}; whether there are newer ones is not known`],
  } as const satisfies Record<typeof state, readonly [Tone, string]>
  const [tone, text] = STATES[state]
  return { name: 'Rules', tone, text }
}

function describeUncounted(problem: string | undefined): Sign {
  return { name: 'Statistics', tone: 'unknown', text: problem ?? 'loading' }
}

function listCountedSigns(counted: Counted, longer: Counted | undefined): Sign[] {
  const { requests, degraded, upstream5xx, untold } = counted.total
  const untoldPolicies = [...new Set(untold.map(({ policy }) => policy))].join(', ')
  const share = formatShare(sumRefused(counted.total), sumTotal(requests))
  const before = longer && findShareBefore(longer, counted)
  const kinds = listNames(degraded).filter((kind) => degraded[kind] > 0)
  const byKind = kinds.map((kind) => `${kind} ${formatCount(degraded[kind])}`).join('; ')
  /** Describes a count that should be 0, and when it last grew. */
  const describe = (name: string, read: (numbers: Numbers) => number, more = ''): Sign => {
    const lastMs = findLast(counted, read)
    if (lastMs === undefined) return { name, tone: 'good', text: 'none' }
    return { name, tone: 'warn', text: `${formatCount(read(counted.total))}${more}, last at ${describeMinute(lastMs)}` }
  }
  return [
    {
      name: 'Refused',
      tone: 'plain',
      text: before === undefined ? share : `${share} (${before} in the period before)`,
    },
    describe('Decided without the store', (all) => sumTotal(all.degraded), ` (${byKind})`),
    describe('Failed store calls', (all) => all.store.failures),
    describe('Answered 503 or 500', ({ requests }) => requests.unavailable + requests.failed),
    ...(untold.length > 0 ? [describe('Costs that responses left untold', sumUntold, ` (${untoldPolicies})`)] : []),
    describe('Errors of the API', (all) => all.upstream5xx, `, ${formatShare(upstream5xx, requests.admitted)}`),
  ]
}

function sumUntold({ untold }: Numbers): number {
  return untold.reduce((sum, { requests }) => sum + requests, 0)
}

/** @returns undefined if nothing was counted in the period before */
function findShareBefore(longer: Counted, { fromMs }: Counted): string | undefined {
  const before = longer.periods.filter(({ startMs }) => startMs < fromMs)
  const requests = before.reduce((sum, period) => sum + sumTotal(period.requests), 0)
  const refused = before.reduce((sum, period) => sum + sumRefused(period), 0)
  return requests === 0 ? undefined : formatShare(refused, requests)
}
