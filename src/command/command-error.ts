/** Errors that end the command, and its exit codes. */

/** The command's exit codes, and what each means. `--help` and docs/cli.md list them. */
export const EXIT_CODES = {
  done: [0, 'done'],
  found: [1, 'what was checked is not in order'],
  misuse: [2, 'the command cannot be carried out as given: arguments, files or configuration'],
  redis: [3, 'Redis, or the gateway, gave no usable answer'],
  unexpected: [4, 'an error of the command itself'],
  interrupted: [130, 'ended by Ctrl-C'],
} as const satisfies Readonly<Record<string, readonly [number, string]>>

export type Exit = keyof typeof EXIT_CODES

/** Ends the command. Its message is one line for the operator, and holds no secret. */
export class CommandError extends Error {
  override readonly name = 'CommandError'
  readonly exit: Exit
  readonly hint: string | undefined

  constructor(message: string, { exit = 'misuse', hint }: { exit?: Exit; hint?: string | undefined } = {}) {
    super(message)
    this.exit = exit
    this.hint = hint
  }
}

export function createBugError(message: string): CommandError {
  return new CommandError(message, { exit: 'unexpected', hint: 'This is a bug of sluice: please report it.' })
}

/** Names the reason why a connection failed, such as ECONNREFUSED. */
export function findCause(error: unknown): string {
  const { name, message, code, cause } = error as {
    readonly name: string
    readonly message: string
    code?: string
    cause?: { code?: string; message?: string }
  }
  return name === 'TimeoutError'
    ? 'no answer in time'
    : (code ?? cause?.code ?? cause?.message ?? (name === 'Error' ? message : name))
}
