import type { Caller } from './caller.ts'

/** What is said of a caller cannot be so. The message is one line, and repeats nothing that may be secret. */
export class CallerError extends Error {
  override readonly name = 'CallerError'
  /** What of it; undefined: how its parts go together. */
  readonly part: keyof Caller | 'digest' | undefined

  constructor(message: string, part?: CallerError['part']) {
    super(message)
    this.part = part
  }
}
