/** What every isolate is configured with, and who sends requests. */
export const LIMIT = 40
/** All of a scenario lies in it, however long that takes: what was charged is still there at the end. */
export const WINDOW_S = 600
export const LOCAL_SHARE = 0.25
export const LOCAL_LIMIT = LIMIT * LOCAL_SHARE

/** Requests of a caller that stays within what one isolate alone allows, wherever they go. */
const MODEST_REQUESTS = 8

/** The policies, one at each path, by what they do while the store cannot be reached; in the shares of traffic that they have. */
export const PATHS: readonly Path[] = [
  ...(['local', 'local', 'open', 'local', 'local', 'closed', 'local', 'held', 'local', 'local', 'both'] as const),
]
export type Path = 'local' | 'open' | 'closed' | 'held' | 'both'

/** Longer than any run: a slot that is not given back stays taken. */
const slots = { algorithm: 'concurrency', slot_ttl: '1h' }

const windowed = { limits: `${LIMIT}/${WINDOW_S}s` }
export const POLICIES = [
  { name: 'local', match: 'GET /local', ...windowed },
  { name: 'open', match: 'GET /open', ...windowed, on_store_error: 'open' },
  { name: 'closed', match: 'GET /closed', ...windowed, on_store_error: 'closed' },
  { name: 'held', match: 'GET /held', limits: `${LIMIT}`, ...slots },
  { name: 'both-local', match: 'GET /both', ...windowed },
  { name: 'both-open', match: 'GET /both', ...windowed, on_store_error: 'open' },
  { name: 'guard', match: '/up/*', limits: '500', ...slots },
]

/** Marks of a degraded answer at each path. */
export const MARKS: Record<Path, string> = {
  local: 'local',
  open: 'open',
  closed: 'closed',
  held: 'local',
  both: 'local, open',
}

export interface Callers {
  /** Who sends the next request to this path. */
  next(path: Path): { caller: string; isGreedy: boolean }
}

/**
 * At each path every third request is of one caller that wants more than its limit; the others come from callers that
 * never want more than an isolate allows alone. (Of `held`, nobody does: what counts there is that all is given back.)
 * @param run keeps its callers apart from those of other runs
 */
export function createCallers(run: string): Callers {
  const sent = new Map<Path, number>()
  return {
    next(path) {
      const index = sent.get(path) ?? 0
      sent.set(path, index + 1)
      const isGreedy = path !== 'held' && index % 3 === 0
      const who = isGreedy ? 'greedy' : `modest-${Math.floor(index / MODEST_REQUESTS)}`
      return { caller: `${PLANTED.caller}-${run}-${path}-${who}`, isGreedy }
    },
  }
}

/** Secrets, each in a place where it belongs; anywhere else they are leaks. */
export const PLANTED = {
  caller: 'planted-caller-token',
  restToken: 'planted-rest-token',
  identitySecret: 'planted-identity-secret',
} as const
