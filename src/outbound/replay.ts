/** Methods of which a repetition does what one call does (RFC 9110, §9.2.2). */
const IDEMPOTENT = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE'])

/** Whether the same call can be made again: its method is idempotent, and its body is not used up once it was sent. */
export function isReplayable(method: string, input: RequestInfo | URL, init: RequestInit | undefined): boolean {
  if (!IDEMPOTENT.has(method)) return false
  const body: unknown = init?.body ?? (input instanceof Request ? input.body : undefined)
  return body === undefined || body === null || isKept(body)
}

/** Bodies that can be read again each time. Streams and iterables are not. */
function isKept(body: unknown): boolean {
  return (
    typeof body === 'string' ||
    body instanceof ArrayBuffer ||
    ArrayBuffer.isView(body) ||
    body instanceof Blob ||
    body instanceof FormData ||
    body instanceof URLSearchParams
  )
}
