import type { ReceivedRequest } from '../received-request.ts'
import { readParameter } from './parameters.ts'
import { NONE, type Reading, readText, SPOILT } from './reading.ts'

/** A larger body is not read: it would have to be held in memory before it can be proxied. */
export const MAX_FORM_BYTES = 8 * 1024

/**
 * A field of an urlencoded body of at most 8 KiB; the body can still be proxied.
 * @returns spoilt for a form that cannot be read: a larger one, one in another charset or coding than UTF-8, and what some
 * APIs take for a form: multipart, or a body without a type
 */
export async function readFormField(request: ReceivedRequest, name: string): Promise<Reading> {
  const { headers, body, parsedBody } = request
  if (parsedBody !== undefined) return readParsed(await parsedBody, name)
  if (!body) return NONE
  const [type = '', ...parameters] = (headers.get('Content-Type') ?? '').toLowerCase().split(';')
  if (type.trim() !== 'application/x-www-form-urlencoded') {
    return /^\s*$|,|form-data|urlencoded/.test(type) ? SPOILT : NONE
  }
  // Compressed, or in UTF-7, it would say something else to an API that takes it.
  const isPlain = parameters.every((parameter) => /^\s*(?:charset="?utf-8"?\s*)?$/.test(parameter))
  if (!isPlain || headers.has('Content-Encoding')) return SPOILT
  if (Number(headers.get('Content-Length') ?? 0) > MAX_FORM_BYTES) return SPOILT
  const text = await readUpTo(MAX_FORM_BYTES, request.clone().body)
  return text === undefined ? SPOILT : readParameter(text, name)
}

/** What the application sees is what counts, whatever was sent. */
function readParsed(parsedBody: unknown, name: string): Reading {
  if (typeof parsedBody !== 'object' || parsedBody === null) return SPOILT
  const value: unknown = Object.hasOwn(parsedBody, name) ? (parsedBody as Record<string, unknown>)[name] : undefined
  if (value === undefined) return NONE
  return typeof value === 'string' ? readText(value) : SPOILT
}

/** @returns undefined if the body is longer; the rest of it is then left to the other reader */
async function readUpTo(maxBytes: number, body: ReadableStream<Uint8Array> | null): Promise<string | undefined> {
  // Keeps a byte order mark, which an API takes for part of the first name.
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
