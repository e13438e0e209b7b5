import type { Problem } from '../http/problem.ts'
import { OperationError } from './operation.ts'

/** More than any list of policies takes. */
export const MAX_BODY_BYTES = 256 * 1024

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

/** The body of a request, of which no more is read than is taken. @throws {OperationError} */
export async function readJson(request: Request): Promise<unknown> {
  const type = request.headers.get('Content-Type') ?? ''
  if (!/^application\/json\s*(?:;|$)/i.test(type)) throw new OperationError(NO_JSON_TYPE)
  const bytes = await readBytes(request)
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes))
  } catch {
    throw new OperationError(NO_JSON)
  }
}

async function readBytes({ body, headers }: Request): Promise<Uint8Array> {
  if (Number(headers.get('Content-Length') ?? 0) > MAX_BODY_BYTES) throw new OperationError(TOO_LARGE)
  const chunks: Uint8Array[] = []
  let size = 0
  if (body) {
    // Stopping early cancels the stream.
    for await (const chunk of body as unknown as AsyncIterable<Uint8Array>) {
      size += chunk.length
      if (size > MAX_BODY_BYTES) throw new OperationError(TOO_LARGE)
      chunks.push(chunk)
    }
  }
  const whole = new Uint8Array(size)
  let at = 0
  for (const chunk of chunks) {
    whole.set(chunk, at)
    at += chunk.length
  }
  return whole
}
