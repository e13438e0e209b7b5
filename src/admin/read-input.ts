import * as v from 'valibot'
import type { Problem } from '../http/problem.ts'
import { InputError, OperationError, type Schema } from './operation.ts'

/** More than any list of policies takes. */
const MAX_BODY_BYTES = 256 * 1024

const TOO_LARGE: Problem = {
  status: 413,
  title: 'Content Too Large',
  detail: `A body may have ${MAX_BODY_BYTES} bytes at most.`,
}
const NO_JSON_TYPE: Problem = {
  status: 415,
  title: 'Unsupported Media Type',
  detail: 'Content-Type must be application/json.',
}
const NO_JSON: Problem = { status: 400, title: 'Bad Request', detail: 'The body is not JSON in UTF-8.' }

/** @throws {OperationError} that says where the mistake is */
export function readInput<Output>(schema: Schema<Output>, value: unknown): Output {
  const result = v.safeParse(schema, value, { abortEarly: true })
  if (result.success) return result.output
  const [{ path = [], expected, received }] = result.issues
  const place = path.map(({ key }) => String(key)).join('.')
  throw new InputError(place, expected === 'never' ? 'no such name' : (expected ?? `something other than ${received}`))
}

/** Reads the JSON of a request, and no more bytes than are taken. @throws {OperationError} */
export async function readJson({ body, headers }: Request): Promise<unknown> {
  if (!/^application\/json\s*(?:;|$)/i.test(headers.get('Content-Type') ?? '')) throw new OperationError(NO_JSON_TYPE)
  if (Number(headers.get('Content-Length') ?? 0) > MAX_BODY_BYTES) throw new OperationError(TOO_LARGE)
  const chunks: Uint8Array<ArrayBuffer>[] = []
  let bytes = 0
  // Leaving the loop cancels the stream.
  for await (const chunk of (body ?? []) as AsyncIterable<Uint8Array<ArrayBuffer>>) {
    bytes += chunk.length
    if (bytes > MAX_BODY_BYTES) throw new OperationError(TOO_LARGE)
    chunks.push(chunk)
  }
  try {
    const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
    return JSON.parse(decoder.decode(await new Blob(chunks).arrayBuffer()))
  } catch {
    throw new OperationError(NO_JSON)
  }
}
