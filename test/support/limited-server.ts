/** A server that counts calls as they arrive, refuses those above its limits, and tells of them in one headerFormat. */

export interface ServerLimit {
  readonly name: string
  readonly limit: number
  readonly windowMs: number
  /** `fixed` windows begin at multiples of their length after `offsetMs`. */
  readonly kind: 'sliding' | 'fixed'
  readonly offsetMs?: number
}

export type HeaderFormat = 'draft-11' | 'draft-7' | 'draft-6' | 'x-ratelimit' | 'x-ratelimit-epoch' | 'retry-after'

interface ServerStatus extends ServerLimit {
  readonly remaining: number
  readonly resetMs: number
}

export class LimitedServer {
  readonly #limits: readonly ServerLimit[]
  readonly #headerFormat: HeaderFormat
  readonly admittedMs: number[] = []
  refused = 0

  constructor(limits: readonly ServerLimit[], headerFormat: HeaderFormat) {
    this.#limits = limits
    this.#headerFormat = headerFormat
  }

  /** Counts a call. @param nowMs when it arrives, milliseconds since the Unix epoch */
  answer(nowMs: number): { readonly status: number; readonly headers: Record<string, string> } {
    const isAdmitted = this.#statuses(nowMs).every(({ remaining }) => remaining > 0)
    if (isAdmitted) this.admittedMs.push(nowMs)
    else this.refused++
    const statuses = this.#statuses(nowMs)
    const headers = this.#fields(statuses, nowMs)
    if (!isAdmitted) {
      const full = statuses.filter(({ remaining }) => remaining === 0)
      headers['retry-after'] = String(seconds(Math.max(...full.map(({ resetMs }) => resetMs))))
    }
    return { status: isAdmitted ? 200 : 429, headers }
  }

  #statuses(nowMs: number): ServerStatus[] {
    return this.#limits.map((own) => {
      const { kind, windowMs, offsetMs = 0, limit } = own
      const beganMs = nowMs - ((nowMs - offsetMs) % windowMs)
      const inWindow = this.admittedMs.filter((ms) => (kind === 'fixed' ? ms >= beganMs : ms > nowMs - windowMs))
      const endsMs = kind === 'fixed' ? beganMs + windowMs : (inWindow[0] ?? nowMs) + windowMs
      return { ...own, remaining: limit - inWindow.length, resetMs: endsMs - nowMs }
    })
  }

  #fields(statuses: readonly ServerStatus[], nowMs: number): Record<string, string> {
    const [first, ...others] = statuses.toSorted((a, b) => a.remaining - b.remaining)
    if (!first) return {}
    const { limit, remaining, resetMs } = first
    switch (this.#headerFormat) {
      case 'draft-11':
        return {
          'ratelimit-policy': statuses
            .map(({ name, limit, windowMs }) => `"${name}";q=${limit};w=${seconds(windowMs)}`)
            .join(', '),
          ratelimit: statuses
            .map(({ name, remaining, resetMs }) => `"${name}";r=${remaining};t=${seconds(resetMs)}`)
            .join(', '),
        }
      case 'draft-7':
        return {
          'ratelimit-policy': statuses.map(({ limit, windowMs }) => `${limit};w=${seconds(windowMs)}`).join(', '),
          ratelimit: `limit=${limit}, remaining=${remaining}, reset=${seconds(resetMs)}`,
        }
      case 'draft-6':
        return {
          'ratelimit-policy': statuses.map(({ limit, windowMs }) => `${limit};w=${seconds(windowMs)}`).join(', '),
          'ratelimit-limit': String(limit),
          'ratelimit-remaining': String(remaining),
          'ratelimit-reset': String(seconds(resetMs)),
        }
      case 'x-ratelimit':
      case 'x-ratelimit-epoch':
        if (others.length > 0) throw new Error('X-RateLimit has room for one limit')
        return {
          'x-ratelimit-limit': String(limit),
          'x-ratelimit-remaining': String(remaining),
          'x-ratelimit-reset': String(
            this.#headerFormat === 'x-ratelimit' ? seconds(resetMs) : seconds(nowMs + resetMs),
          ),
        }
      case 'retry-after':
        return {}
    }
  }
}

function seconds(ms: number): number {
  return Math.ceil(ms / 1000)
}
