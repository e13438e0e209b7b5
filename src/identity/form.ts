import { onlyValue } from './only-value.ts'

/** A larger body is not read: it would have to be held in memory before it can be proxied. */
const MAX_FORM_BYTES = 8 * 1024

/**
 * A field of a POST with an urlencoded body of at most 8 KiB; the body can still be proxied.
 * @returns undefined for any other request, or if the field is missing, empty or repeated
 */
export async function formField(request: Request, name: string): Promise<string | undefined> {
  const type = request.headers.get('Content-Type')?.split(';', 1)[0]?.trim().toLowerCase()
  if (request.method !== 'POST' || type !== 'application/x-www-form-urlencoded' || !request.body) return undefined
  if (Number(request.headers.get('Content-Length') ?? 0) > MAX_FORM_BYTES) return undefined
  const text = await readUpTo(MAX_FORM_BYTES, request.clone().body)
  return text === undefined ? undefined : onlyValue(new URLSearchParams(text), name)
}

/** @returns undefined if the body is longer; the rest of it is then left to the other reader */
async function readUpTo(maxBytes: number, body: ReadableStream<Uint8Array> | null): Promise<string | undefined> {
  const decoder = new TextDecoder()
  let bytes = 0
  let text = ''
  const reader = body?.getReader()
  for (let chunk = await reader?.read(); chunk?.value; chunk = await reader?.read()) {
    bytes += chunk.value.length
    if (bytes > maxBytes) {
      // Not awaited: by the Streams standard, this ends only when the other reader has done with its branch as well.
      reader?.cancel().catch(() => {})
      return undefined
    }
    text += decoder.decode(chunk.value, { stream: true })
  }
  return text + decoder.decode()
}
