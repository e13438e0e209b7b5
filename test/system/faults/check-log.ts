import { PLANTED } from './callers.ts'
import { summarize } from './check-samples.ts'

const EXPECTED_EVENTS = new Set([
  ...['store_error', 'store_recovered', 'late_decision', 'background_error'],
  ...['upstream_timeout', 'upstream_unreachable'],
])
/** Lines of one event that an isolate may write a second. */
const LINES_A_SECOND = 1

/**
 * Asserts that a Worker's log holds known lines only, errors at a bounded rate, and no secret.
 * @param tookMs time in which the lines were written
 */
export function checkLog(lines: readonly string[], tookMs: number): string[] {
  const events = lines.map((line) => readEvent(line))
  const strange = events.flatMap((event, index) =>
    event && EXPECTED_EVENTS.has(event) ? [] : [`log: ${lines[index]?.slice(0, 300)}`],
  )
  const allowed = Math.ceil(tookMs / 1_000) * LINES_A_SECOND + 1
  const frequent = [...Map.groupBy(events, (event) => event)].flatMap(([event, { length }]) =>
    length > allowed ? [`${length} lines ${event} in ${tookMs.toFixed()} ms`] : [],
  )
  return summarize([...strange, ...frequent, ...lines.flatMap((line) => checkSecrets(line, 'a log line'))])
}

export function readEvent(line: string): string | undefined {
  try {
    const { event } = JSON.parse(line) as { event?: unknown }
    return typeof event === 'string' ? event : undefined
  } catch {
    return undefined
  }
}

export function checkSecrets(text: string, where: string): string[] {
  return Object.entries(PLANTED).flatMap(([name, secret]) => (text.includes(secret) ? [`${name} in ${where}`] : []))
}
