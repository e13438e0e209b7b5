/** Recognizes operators, by a token or by a session. */
import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Digest } from '../../core/runtime/digest.ts'
import type { Log } from '../../core/runtime/log.ts'
import { readCallerAddress } from '../../http/request/identity/address.ts'
import { createProblem, createTemporary, type Problem } from '../../http/response/problem.ts'
import { createAddressLimit } from './address-limit.ts'

/** Wrong tokens that each isolate accepts from an address. */
const ATTEMPTS = { limit: 10, windowMs: 60_000 }

const COOKIE = 'sluice_session'
const SESSION_MS = 3_600_000

/** An expired session is no attempt. */
type SessionState = 'valid' | 'forged' | 'expired'

export interface AdminAuthOptions {
  readonly token: string
  readonly ipv6Prefix: number
  readonly digest: Digest
  readonly now: () => number
  readonly log: Log
}

export type AdminAuth = ReturnType<typeof createAdminAuth>

/**
 * Recognizes operators by the token, or by a session that is a signed cookie and nothing else, so that every isolate
 * knows it. The key of the signature is the token itself: when it is changed, all sessions end.
 */
export function createAdminAuth({ token, ipv6Prefix, digest, now, log }: AdminAuthOptions) {
  const isToken = createTokenCheck(token)
  const findWaitMs = createAddressLimit(ATTEMPTS, now)

  /** @param given undefined: none that can be read @returns undefined if it is the token */
  function checkToken(request: Request, given: string | undefined): Problem | undefined {
    const isRight = given !== undefined && isToken(given)
    return limitAttempts(request, isRight) ?? (isRight ? undefined : UNAUTHORIZED)
  }

  /** After too many wrong attempts, nobody is told whether this one was right. */
  function limitAttempts(request: Request, isRight: boolean): Problem | undefined {
    const address = readCallerAddress(request, ipv6Prefix)
    const waitMs = findWaitMs(address, isRight ? 'peek' : 'take')
    if (!isRight) log('warn', { event: 'admin_refused', caller: digest(['ip', address]) })
    if (waitMs === undefined) return undefined
    return createTemporary('too_many_attempts', 429, 'Too many failed attempts. Try again later.', waitMs)
  }

  /** A page of a sibling host can set more cookies of this name, so one that is valid is enough. */
  function readSessions(cookies: string | null): readonly SessionState[] {
    const found = (cookies ?? '').matchAll(/(?:^|[;,])\s*sluice_session=([^;,]*)/g)
    const values = [...found].map(([, value = '']) => value.trim())
    return values.filter((value) => value !== '').map(judgeSession)
  }

  function judgeSession(value: string): SessionState {
    const [, text, expiresMs, signature] = /^((\d{1,15})\.[\w-]{16})\.([\w-]{43})$/.exec(value) ?? []
    if (!text || !signature || !createTokenCheck(sign(text))(signature)) return 'forged'
    return Number(expiresMs) > now() ? 'valid' : 'expired'
  }

  function sign(text: string): string {
    return createHmac('sha256', token).update(`sluice session ${text}`).digest('base64url')
  }

  return {
    checkToken,
    /** @returns undefined if an operator has sent this, else what to answer */
    check(request: Request): Problem | undefined {
      const given = readBearerToken(request)
      const sessions = readSessions(request.headers.get('Cookie'))
      // A browser that is logged in makes no attempts, whatever else it sends: Basic credentials of the API, for example.
      if (sessions.includes('valid') && !(given !== undefined && isToken(given))) {
        return isSameOrigin(request) ? undefined : CROSS_ORIGIN
      }
      if (request.headers.has('Authorization')) return checkToken(request, given)
      return (sessions.includes('forged') ? limitAttempts(request, false) : undefined) ?? UNAUTHORIZED
    },
    createSession(): string {
      const text = `${now() + SESSION_MS}.${randomBytes(12).toString('base64url')}`
      return formatCookie(`${text}.${sign(text)}`, SESSION_MS / 1000)
    },
  }
}

export const END_OF_SESSION = formatCookie('', 0)

/** Not to scripts, not over plain HTTP, not from other sites, and not to the API behind the gateway. */
function formatCookie(value: string, seconds: number): string {
  return `${COOKIE}=${value}; Path=/_sluice/; Max-Age=${seconds}; HttpOnly; Secure; SameSite=Strict`
}

/** @returns a check that takes as long for every text: how long says nothing about the token */
export function createTokenCheck(token: string): (text: string) => boolean {
  const expected = hashText(token)
  // Digests have the same length, whatever was sent.
  return (text) => timingSafeEqual(hashText(text), expected)
}

function hashText(text: string): Uint8Array {
  return createHash('sha256').update(text).digest()
}

export function readBearerToken({ headers }: Request): string | undefined {
  return /^Bearer +(\S+) *$/i.exec(headers.get('Authorization') ?? '')?.[1]
}

/** A browser sends `Origin` with all that can change something, and no page can forge it. */
export function isSameOrigin(request: Request): boolean {
  return /^(?:GET|HEAD)$/.test(request.method) || request.headers.get('Origin') === new URL(request.url).origin
}

export const CROSS_ORIGIN = createProblem('cross_origin', 403, 'Cross-origin request refused.')

const UNAUTHORIZED = createProblem('unauthorized', 401, 'Missing or invalid admin token (Authorization: Bearer).', {
  headers: { 'WWW-Authenticate': 'Bearer realm="sluice"' },
})
