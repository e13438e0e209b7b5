/** One request, as far as a log or a description of traffic tells. */
export interface LogEntry {
  /** Milliseconds since the Unix epoch; may have a fraction. */
  readonly timeMs: number
  readonly method: string
  /** As in the request line: a path with its query, or a whole URL. */
  readonly target: string
  readonly ip: string | undefined
  /** What the caller sends as Authorization. */
  readonly token: string | undefined
  /** Other fields, by their names in lower case. */
  readonly headers: ReadonlyMap<string, string>
  /** Of the response; undefined if it is not told. */
  readonly status: number | undefined
}

/** @returns undefined for a line that it cannot read */
export type LineReader = (line: string) => LogEntry | undefined

/** Takes a request line apart (RFC 9112 §3). @returns undefined if it has no path */
export function readRequestLine(text: string): Pick<LogEntry, 'method' | 'target'> | undefined {
  const [, method, target] = /^([A-Za-z-]{1,30}) ((?:https?:\/\/|\/)\S*)(?: HTTP\/[\d.]+)?$/.exec(text) ?? []
  return method === undefined || target === undefined ? undefined : { method, target }
}
