/** Writes the log, and few lines of each kind when something breaks for each request. */

/** The subject of a line; docs/errors.md explains each. Published events keep their meanings. */
export type LogEvent =
  | 'admin_refused'
  | 'analytics_write_failed'
  | 'background_error'
  | 'cost_untold'
  | 'counted_twice'
  | 'in_memory_store'
  | 'jwks_unavailable'
  | 'late_decision'
  | 'made_per_request'
  | 'mirror'
  | 'mirror_error'
  | 'mirror_recovered'
  | 'misconfigured'
  | 'overrides_ignored'
  | 'refused'
  | 'rules_active'
  | 'rules_copy_failed'
  | 'rules_invalid'
  | 'rules_lost'
  | 'rules_read_failed'
  | 'shadow_blocked'
  | 'shadow_limited'
  | 'statistics_lost'
  | 'statistics_send_failed'
  | 'store_error'
  | 'store_recovered'
  | 'unexpected_error'
  | 'unknown_address'
  | 'unknown_identity'
  | 'untrusted_proxy'
  | 'upstream_timeout'
  | 'upstream_unreachable'

/** Writes one line. Fields must contain no secret and no raw identity. */
export type Log = (
  level: 'info' | 'warn' | 'error',
  fields: Readonly<Record<string, unknown>> & { readonly event: LogEvent },
) => void

/** One JSON object a line, which Workers Logs indexes by field. */
export const consoleLog: Log = (level, fields) => console[level](JSON.stringify(fields))

const THROTTLE_MS = 1_000

/** Writes one error or warning of each event a second: when something breaks, it breaks for each request. */
export function throttle(log: Log, now: () => number): Log {
  const events = new Map<string, { readonly at: number; suppressed: number }>()
  return function logSeldom(level, fields) {
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

type Hook<Args extends unknown[]> = ((...args: Args) => void) | undefined

/**
 * Calls a function of a program that only looks on: what it throws is its own, and changes nothing.
 * @returns calls `hook`, which may be asynchronous, and logs what it throws; undefined without one
 */
export function createHook<Args extends unknown[]>(option: string, hook: Hook<Args>, log: Log): Hook<Args> {
  const logError = (error: unknown) =>
    log('error', {
      event: 'background_error',
      message: `${option}: ${error instanceof Error ? error.message : 'failed'}`,
    })
  return hook && ((...args) => void (async () => hook(...args))().catch(logError))
}
