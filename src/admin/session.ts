import { createHmac, randomBytes } from 'node:crypto'
import { createTokenCheck } from './token.ts'

const NAME = 'sluice_session'
/** How long an operator stays logged in. */
export const SESSION_MS = 3_600_000

export interface Sessions {
  /** `Set-Cookie` of a new one. */
  begin(): string
  /** `Set-Cookie` that ends it in the browser. */
  readonly end: string
  /** What a request's `Cookie` header says: a page of a sibling host can set more cookies of this name. */
  read(cookies: string | null): 'valid' | 'forged' | 'over' | 'none'
}

/**
 * Sessions that live in a signed cookie alone, so that every isolate knows them. The key of the signature is the token
 * itself: when it is changed, all of them end.
 * @param now milliseconds since the Unix epoch
 */
export function createSessions(token: string, now: () => number): Sessions {
  const sign = (text: string) => createHmac('sha256', token).update(`sluice session ${text}`).digest('base64url')
  // Not to scripts, not over plain HTTP, not from other sites, and not to the API behind the gateway.
  const cookie = (value: string, seconds: number) =>
    `${NAME}=${value}; Path=/_sluice/; Max-Age=${seconds}; HttpOnly; Secure; SameSite=Strict`
  return {
    begin() {
      const text = `${now() + SESSION_MS}.${randomBytes(12).toString('base64url')}`
      return cookie(`${text}.${sign(text)}`, SESSION_MS / 1000)
    },
    end: cookie('', 0),
    read(cookies) {
      const states = new Set(readCookies(cookies).map(judge))
      return (['valid', 'forged', 'over'] as const).find((state) => states.has(state)) ?? 'none'
    },
  }

  function judge(value: string): 'valid' | 'forged' | 'over' {
    const [, text, expiresMs, signature] = /^((\d{1,15})\.[\w-]{16})\.([\w-]{43})$/.exec(value) ?? []
    if (text === undefined || signature === undefined) return 'forged'
    if (!createTokenCheck(sign(text))(signature)) return 'forged'
    return Number(expiresMs) > now() ? 'valid' : 'over'
  }
}

function readCookies(cookies: string | null): readonly string[] {
  const found = (cookies ?? '').matchAll(/(?:^|[;,])\s*sluice_session=([^;,]*)/g)
  return [...found].map(([, value = '']) => value.trim()).filter(Boolean)
}
