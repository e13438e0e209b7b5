/** Costs of a request: estimated before its response, and told by it. */
import { listNames } from '../runtime/lists.ts'

/** A part of what a request has cost, as its response tells it: `weight` units for each of what it counts. */
export type CostTerm = { readonly weight: number } & (
  | { readonly kind: 'header'; readonly name: string }
  /** A number in JSON, in any form of it; at the first of several paths that has one. */
  | {
      readonly kind: 'json'
      readonly name: string
      readonly paths: readonly (readonly string[])[]
      /** It counts 0 where it is missing and another one is not. */
      readonly isOptional: boolean
    }
  | MeasureTerm
)

/** A part of a cost that is always known, because it is measured here. */
export type MeasureTerm = {
  readonly weight: number
  /** Bytes of the body as it is sent, bytes of the request's body as it came, or time until the response ends. */
  readonly kind: 'bytes' | 'bytes:request' | 'ms'
}

/** Units that a request costs whose response does not tell: so many, or for each of what is measured. */
export type Untold = number | MeasureTerm

/** Why a cost is not known. Names of labels and log fields: published ones keep their meanings. */
export const UNTOLD_REASONS = [
  /** The response lacks the header, or it holds no integer from 0. */
  'no_header',
  /** No number is where the term points to. */
  'no_member',
  /** HEAD, 204, 304, or an upgrade to a WebSocket. */
  'no_body',
  /** 206. */
  'partial',
  /** The body is neither JSON nor a stream of it. */
  'type',
  /** The body is encoded in a way that is not known, or not as it says. */
  'encoding',
  /** The API, or its connection, broke off. */
  'broken',
  /** The client left, and the rest was not to be read. */
  'left',
  /** The client left, and the rest took too long. */
  'too_late',
  /** There is no response: the API was not reached, or its handler failed. */
  'no_response',
] as const
export type UntoldReason = (typeof UNTOLD_REASONS)[number]

/** A cost as a response tells it: all of it, or a part that may be 0. */
export type CostReading =
  | { readonly kind: 'told'; readonly count: number }
  | { readonly kind: 'untold'; readonly reason: UntoldReason; readonly count: number }

/** Reads what a response tells of a term, until now or to its end. */
export type ReadCost = (term: CostTerm) => CostReading

const TERMS = {
  header: { isMeasure: false, isInHead: true },
  json: { isMeasure: false, isInHead: false },
  bytes: { isMeasure: true, isInHead: false },
  'bytes:request': { isMeasure: true, isInHead: false },
  ms: { isMeasure: true, isInHead: false },
} as const satisfies Readonly<Record<CostTerm['kind'], { readonly isMeasure: boolean; readonly isInHead: boolean }>>

export function isMeasure(term: CostTerm): term is MeasureTerm {
  return TERMS[term.kind].isMeasure
}

export function isMeasureKind(text: string): text is MeasureTerm['kind'] {
  return listNames(TERMS).some((kind) => kind === text && TERMS[kind].isMeasure)
}

/** Tests that the head of a response tells it. */
export function isInHead({ kind }: CostTerm): boolean {
  return TERMS[kind].isInHead
}

export function createReading(count: number): CostReading {
  return { kind: 'told', count }
}

export function createUntold(reason: UntoldReason, count = 0): CostReading {
  return { kind: 'untold', reason, count }
}

/** Adds up the terms of a policy: it is told what they cost if each is told. */
export function sumCosts(terms: readonly CostTerm[], read: ReadCost): CostReading {
  let units = 0
  let reason: UntoldReason | undefined
  for (const term of terms) {
    const reading = read(term)
    units += reading.count * term.weight
    // What would only lower the cost may be missing.
    if (reading.kind === 'untold' && term.weight > 0) reason ??= reading.reason
  }
  // A sum of fractions may be a little above what it should be.
  const count = Math.max(0, Math.ceil(units - 1e-9))
  return reason === undefined ? createReading(count) : createUntold(reason, count)
}
