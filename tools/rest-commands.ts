/** Commands as requests to a REST front carry them. */

/** A failure with the status and the message that Upstash would answer. */
export class RequestError extends Error {
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

/**
 * Commands that change the state of a connection, take it over or hold it up. All requests share one connection, so
 * these are refused, as Upstash refuses most of them.
 */
const UNAVAILABLE = new Set([
  ...['AUTH', 'HELLO', 'MONITOR', 'PSYNC', 'QUIT', 'RESET', 'SELECT', 'SYNC', 'WAIT', 'WAITAOF'],
  ...['DISCARD', 'EXEC', 'MULTI', 'UNWATCH', 'WATCH'],
  ...['PSUBSCRIBE', 'PUNSUBSCRIBE', 'SSUBSCRIBE', 'SUBSCRIBE', 'SUNSUBSCRIBE', 'UNSUBSCRIBE'],
  ...['BLMOVE', 'BLMPOP', 'BLPOP', 'BRPOP', 'BRPOPLPUSH', 'BZMPOP', 'BZPOPMAX', 'BZPOPMIN'],
])

/**
 * The command in the body of a request to `/`.
 * @throws RequestError unless the body is a JSON array of strings, numbers and booleans.
 */
export function parseCommand(body: string): string[] {
  return toCommand(parseJson(body), 'command')
}

/**
 * The commands in the body of a request to `/pipeline` or `/multi-exec`.
 * @throws RequestError unless the body is a JSON array of commands, at least one.
 */
export function parseCommands(body: string, kind: 'pipeline' | 'multi-exec'): string[][] {
  const rows = parseJson(body)
  if (!Array.isArray(rows)) throw new RequestError(400, `ERR failed to parse ${kind} request`)
  if (rows.length === 0) throw new RequestError(400, `ERR empty ${kind} request`)
  return rows.map((row) => toCommand(row, `${kind} command`))
}

/** @throws RequestError for a command that one request must not send over the connection of all. */
export function refuseUnavailable([name = '']: readonly string[]): void {
  if (UNAVAILABLE.has(name.toUpperCase())) throw new RequestError(400, `ERR Command is not available: '${name}'`)
}

function toCommand(value: unknown, what: string): string[] {
  if (!Array.isArray(value) || !value.every(isScalar)) throw new RequestError(400, `ERR failed to parse ${what}`)
  if (value.length === 0) throw new RequestError(400, `ERR empty ${what}`)
  return value.map(String)
}

function isScalar(value: unknown): boolean {
  return ['string', 'number', 'boolean'].includes(typeof value)
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
