/** Names of days, long or short, as all three forms of an HTTP date begin (RFC 9110, §5.6.7). */
const HTTP_DATE = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? /

/**
 * What `Retry-After` says (RFC 9110, §10.2.3), in seconds or as a date.
 * @param nowMs milliseconds since the Unix epoch
 * @returns milliseconds from now, at least 0; undefined if the field is missing or says nothing
 */
export function readRetryAfter(headers: Headers, nowMs: number): number | undefined {
  const text = headers.get('Retry-After')?.trim() ?? ''
  if (/^\d{1,12}$/.test(text)) return Number(text) * 1000
  const dateMs = readHttpDate(text)
  return dateMs === undefined ? undefined : Math.max(0, dateMs - serverTime(headers, nowMs))
}

/**
 * The server's clock when it answered, by its `Date` field where there is one: a moment that it names is one of this
 * clock. Since the field is cut to whole seconds, what is left until such a moment is never taken for too short.
 */
export function serverTime(headers: Headers, nowMs: number): number {
  return readHttpDate(headers.get('Date')?.trim() ?? '') ?? nowMs
}

/** @returns milliseconds since the Unix epoch; undefined for anything but an HTTP date */
export function readHttpDate(text: string): number | undefined {
  if (!HTTP_DATE.test(text)) return undefined
  // The oldest form, that of asctime(), names no zone, but means UTC.
  const ms = Date.parse(text.endsWith('GMT') ? text : `${text} GMT`)
  return Number.isNaN(ms) ? undefined : ms
}
