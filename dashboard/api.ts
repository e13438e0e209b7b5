/** The admin API, called within the session of this browser. */

/** A problem reported by the API. */
export class Problem extends Error {
  override readonly name = 'Problem'
  /** HTTP status; 0: no answer at all. */
  readonly status: number
  /** Where in the body the mistake is. */
  readonly pointer: string | undefined

  constructor(status: number, detail: string, pointer?: string) {
    super(detail)
    this.status = status
    this.pointer = pointer
  }

  /** Its message, without where in the body or the rules the mistake is: whoever reads it sees one form. */
  get plain(): string {
    return this.message.replace(/^[a-z][\w.[\]]*: /, '')
  }
}

/** @param path below `/_sluice` @param body sent as JSON; left out, the method is GET @throws {Problem} */
export async function ask<T>(path: string, body?: unknown): Promise<T> {
  const post = { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) }
  const response = await fetch(`/_sluice${path}`, body === undefined ? {} : post).catch(() => undefined)
  if (!response) throw new Problem(0, 'Gateway unreachable.')
  const text = await response.text()
  const value = parse(text)
  if (response.ok) return value as T
  const { detail, pointer } = (value ?? {}) as { detail?: string; pointer?: string }
  throw new Problem(response.status, detail ?? `Request failed (HTTP ${response.status}).`, pointer)
}

/** @returns undefined for what is no JSON */
export function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
