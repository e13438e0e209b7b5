import * as v from 'valibot'
import { InputError, OperationError, type Schema } from './operation.ts'

/** No list of policies takes as much. */
const MAX_BODY_BYTES = 256 * 1024

export function readInput<Output>(schema: Schema<Output>, value: unknown): Output {
  const result = v.safeParse(schema, value, { abortEarly: true })
  if (result.success) return result.output
  const [{ path = [], expected, received }] = result.issues
  const names = path.map(({ key }) => String(key))
  throw new InputError(names, expected === 'never' ? 'no such name' : (expected ?? `something other than ${received}`))
}

/** Reads the JSON of a request, and no more bytes than are taken. @throws {OperationError} */
export async function readJson({ body, headers }: Request): Promise<unknown> {
  if (!/^application\/json\s*(?:;|$)/i.test(headers.get('Content-Type') ?? '')) {
    throw new OperationError(415, 'Content-Type must be application/json.')
  }
  if (Number(headers.get('Content-Length') ?? 0) > MAX_BODY_BYTES) throw createTooLarge()
  const chunks: Uint8Array<ArrayBuffer>[] = []
  let bytes = 0
  // Leaving the loop cancels the stream.
  for await (const chunk of (body ?? []) as AsyncIterable<Uint8Array<ArrayBuffer>>) {
    bytes += chunk.length
    if (bytes > MAX_BODY_BYTES) throw createTooLarge()
    chunks.push(chunk)
  }
  try {
    const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
    return JSON.parse(decoder.decode(await new Blob(chunks).arrayBuffer()))
  } catch {
    throw new OperationError(400, 'The body is not JSON in UTF-8.')
  }
}

function createTooLarge(): OperationError {
  return new OperationError(413, `A body may have ${MAX_BODY_BYTES} bytes at most.`)
}
