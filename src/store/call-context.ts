import type { Deadlines } from './deadlines.ts'

/** Lets work go on after the response; failures are its own to log. */
export interface WaitUntil {
  (work: Promise<unknown>): void
  /** Those of the request, until its response is made. */
  readonly deadlines?: Deadlines
}
