/** Rows that an object keeps, each a text under a kind and a number. What is put is durable before any answer leaves. */
export interface Rows {
  /** In ascending order of kinds, then of numbers. */
  all(): Iterable<Row>
  put(kind: number, n: number, body: string): void
  delete(kind: number, n: number): void
}

export interface Row {
  readonly kind: number
  readonly n: number
  readonly body: string
}

/** The one row that each change writes. */
export const HEAD = 0
/** Older entries of a log, many to a row. */
export const LOG = 1
/** Older decisions, many to a row. */
export const DECISIONS = 2
/** One row for each slot. */
export const SLOTS = 3
