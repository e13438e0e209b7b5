import type { ReceivedRequest } from '../received-request.ts'

/** A larger body is not read: it would have to be held in memory before it can be proxied. */
export const MAX_BODY_BYTES = 8 * 1024

/**
 * A body of at most 8 KiB as text, with its byte order mark if it has one. It can still be proxied.
 * @returns undefined for a larger one, and for one in a coding that only the API can decode
 */
export async function readBody(request: ReceivedRequest): Promise<string | undefined> {
  const { headers } = request
  if (headers.has('Content-Encoding') || Number(headers.get('Content-Length') ?? 0) > MAX_BODY_BYTES) return undefined
  return readUpTo(MAX_BODY_BYTES, request.clone().body)
}

/** @returns undefined if the body is longer; the rest of it is then left to the other reader, if there is one */
export async function readUpTo(maxBytes: number, body: ReadableStream<Uint8Array> | null): Promise<string | undefined> {
  // Keeps a byte order mark: an API takes it for part of what follows.
  const decoder = new TextDecoder('utf-8', { fatal: false, ignoreBOM: true })
  let bytes = 0
  let text = ''
  const reader = body?.getReader()
  for (let chunk = await reader?.read(); chunk?.value; chunk = await reader?.read()) {
    bytes += chunk.value.length
    if (bytes > maxBytes) {
      // Not awaited: by the Streams standard, this ends only when the other reader is done with its branch too.
      reader?.cancel().catch(() => {})
      return undefined
    }
    text += decoder.decode(chunk.value, { stream: true })
  }
  return text + decoder.decode()
}
