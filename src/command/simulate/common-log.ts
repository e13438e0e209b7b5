import { type LineReader, readRequestLine } from './log-entry.ts'
import { createTimeReader } from './log-time.ts'

/** `address ident user [time] "request" status bytes`, and in the Combined format `"referer" "user agent"`. */
const LINE =
  /^(\S+) \S+ ([^[]*) \[([^\]]*)\] "((?:[^"\\]|\\.)*)" (\d{3}|-) \S+(?: "((?:[^"\\]|\\.)*)" "((?:[^"\\]|\\.)*)")?/

/** Reads the Common and the Combined Log Format of Apache and nginx. The user stands for a token. */
export function createCommonReader(): LineReader {
  const readTime = createTimeReader()
  return function readCommon(line) {
    const [, ip, user, time, request = '', status, referer, agent] = LINE.exec(line) ?? []
    const timeMs = readTime(time)
    const target = readRequestLine(request)
    if (timeMs === undefined || !target) return undefined
    const headers = new Map<string, string>()
    if (isThere(referer)) headers.set('referer', referer)
    if (isThere(agent)) headers.set('user-agent', agent)
    return {
      ...target,
      timeMs,
      ip,
      token: isThere(user) ? user : undefined,
      headers,
      status: status === '-' ? undefined : Number(status),
    }
  }
}

function isThere(text: string | undefined): text is string {
  return text !== undefined && text !== '-' && text !== ''
}
