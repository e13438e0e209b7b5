/** Writes one line. Fields must contain no secret and no raw identity. */
export type Log = (
  level: 'info' | 'warn' | 'error',
  fields: Readonly<Record<string, unknown>> & { readonly event: string },
) => void

/** One JSON object a line, which Workers Logs indexes by field. */
export const consoleLog: Log = (level, fields) => console[level](JSON.stringify(fields))

const THROTTLE_MS = 1_000

/** Writes one error or warning of each event a second: when something breaks, it breaks for each request. */
export function throttle(log: Log, now: () => number): Log {
  const events = new Map<string, { readonly at: number; suppressed: number }>()
  return function throttled(level, fields) {
    const last = events.get(fields.event)
    const at = now()
    if (level === 'info') log(level, fields)
    else if (last && Math.abs(at - last.at) < THROTTLE_MS) last.suppressed++
    else {
      events.set(fields.event, { at, suppressed: 0 })
      log(level, last?.suppressed ? { ...fields, suppressed: last.suppressed } : fields)
    }
  }
}
