import { problemResponse, QUOTA_EXCEEDED, retryAfter } from '../http/problem.ts'
import type { Rule } from '../model/charge.ts'
import type { Digest } from '../request/identity/digest.ts'
import { callerAddress } from '../request/identity/identify.ts'
import type { Log } from '../runtime/log.ts'
import { MemoryStore } from '../store/memory/memory-store.ts'
import { createSessions, type Sessions } from './session.ts'
import { createTokenCheck, type IsToken } from './token.ts'

/** Attempts with what is not the token, for each address and isolate. */
const ATTEMPTS = { limit: 10, windowMs: 60_000 }

export interface GateOptions {
  readonly token: string
  /** Leading bits of an IPv6 address that make one caller. */
  readonly ipv6Prefix: number
  /** Names callers in the log. */
  readonly digest: Digest
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number
  readonly log: Log
}

/** Tells operators from everybody else. */
export class Gate {
  readonly sessions: Sessions
  readonly #options: GateOptions
  readonly #isToken: IsToken
  readonly #attempts: MemoryStore

  constructor(options: GateOptions) {
    this.#options = options
    this.#isToken = createTokenCheck(options.token)
    this.sessions = createSessions(options.token, options.now)
    this.#attempts = new MemoryStore(options.now)
  }

  /** @returns undefined if an operator has sent this, else what to answer */
  refuse(request: Request): Response | undefined {
    const field = request.headers.get('Authorization')
    const [, token] = /^Bearer +(\S+) *$/i.exec(field ?? '') ?? []
    const session = this.sessions.read(request.headers.get('Cookie'))
    // A browser that is logged in makes no attempts, whatever else it sends: Basic credentials of the API, for example.
    if (session === 'valid' && !(token !== undefined && this.#isToken(token))) {
      return isOwn(request) ? undefined : notOwn()
    }
    if (field !== null) return this.refuseToken(request, token)
    if (session === 'forged') return this.#judge(request, false) ?? unauthorized()
    return unauthorized()
  }

  /**
   * @param token that was sent; undefined: none that can be read
   * @returns undefined if it is the token
   */
  refuseToken(request: Request, token: string | undefined): Response | undefined {
    const isRight = token !== undefined && this.#isToken(token)
    return this.#judge(request, isRight) ?? (isRight ? undefined : unauthorized())
  }

  /** Who was wrong too often is not told whether this was right. @returns what to answer then */
  #judge(request: Request, isRight: boolean): Response | undefined {
    const { ipv6Prefix, digest, log } = this.#options
    const address = callerAddress(request, ipv6Prefix)
    const rule: Rule = {
      key: address,
      algorithm: 'sliding-window',
      tiers: [ATTEMPTS],
      cost: 1,
      enforced: true,
      reserved: 0,
    }
    const { granted, usage } = this.#attempts.decideNow({ mode: isRight ? 'peek' : 'all', permits: 1, rules: [rule] })
    if (!isRight) log('warn', { event: 'admin_refused', caller: digest(['ip', address]) })
    return granted > 0 ? undefined : tooMany(usage[0]?.[0]?.retryAfterMs ?? ATTEMPTS.windowMs)
  }
}

/**
 * Whether a page of the gateway's own has made this request. A browser sends `Origin` with whatever can change
 * something, and no page can forge it.
 */
export function isOwn(request: Request): boolean {
  return /^(?:GET|HEAD)$/.test(request.method) || request.headers.get('Origin') === new URL(request.url).origin
}

export function notOwn(): Response {
  const detail = 'A browser sent this for a page of another origin.'
  return problemResponse({ status: 403, title: 'Forbidden', detail })
}

function unauthorized(): Response {
  return problemResponse({
    status: 401,
    title: 'Unauthorized',
    detail: 'This needs the token of the operators, as Authorization: Bearer.',
    headers: { 'WWW-Authenticate': 'Bearer realm="sluice"' },
  })
}

function tooMany(retryAfterMs: number): Response {
  return problemResponse({
    type: QUOTA_EXCEEDED,
    status: 429,
    title: 'Too Many Requests',
    detail: 'Too many attempts with what is not the token.',
    extensions: { retry_after_ms: retryAfterMs },
    headers: retryAfter(retryAfterMs),
  })
}
