import type { Exit } from './exit-codes.ts'

/** The command cannot go on. Its message is one line for the operator, and holds no secret. */
export class CommandError extends Error {
  override readonly name = 'CommandError'
  readonly exit: Exit
  /** What to do about it. */
  readonly hint: string | undefined

  constructor(message: string, { exit = 'misuse', hint }: { exit?: Exit; hint?: string } = {}) {
    super(message)
    this.exit = exit
    this.hint = hint
  }
}
