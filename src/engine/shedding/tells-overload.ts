import type { ReceivedRequest } from '../../request/received-request.ts'

/**
 * Whether an answer, including the proxy's own, says that the upstream has too much to do. One that failed or came too
 * late says so only for a request without a body: a client may have broken its body off, or kept it back. A 429 says
 * that one caller asks too much.
 */
export function signalsOverload(
  { status, headers }: { readonly status: number; readonly headers: Pick<Headers, 'has'> },
  { body }: Pick<ReceivedRequest, 'body'>,
): boolean {
  if (status === 502 || status === 504) return body === null
  return status === 503 && headers.has('Retry-After')
}
