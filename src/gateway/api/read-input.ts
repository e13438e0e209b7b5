/** Reads the input of a JSON API: what is wrong with it is a problem that names the place. */
import * as v from 'valibot'
import { findRepeatedName } from '../../http/config/policy-keys.ts'
import { readUpTo } from '../../http/request/identity/body.ts'
import { InputError, OperationError, type Schema } from './operation.ts'

/** No list of policies takes as much. */
const MAX_BODY_BYTES = 256 * 1024

/** @param path leads to the value in the body @throws {InputError} */
export function readInput<Output>(schema: Schema<Output>, value: unknown, path: readonly string[] = []): Output {
  const result = v.safeParse(schema, value, { abortEarly: true })
  if (result.success) return result.output
  const [{ path: inner = [], type, expected, received, message }] = result.issues
  const names = [...path, ...inner.map(({ key }) => String(key))]
  if (expected === 'never') throw new InputError(names, 'unknown field')
  if (received === 'undefined' && expected === JSON.stringify(names.at(-1))) throw new InputError(names, 'missing')
  const isOwn = !message.startsWith('Invalid ')
  const other = /integer|finite/.test(type) ? 'an integer' : `something other than ${received}`
  throw new InputError(names, `expected ${isOwn ? message : (expected ?? other)}`)
}

/** Reads the JSON of a request, and no more bytes than are taken. @throws {OperationError} */
export async function readJson({ body, headers }: Request, maxBytes = MAX_BODY_BYTES): Promise<unknown> {
  if (!/^application\/json\s*(?:;|$)/i.test(headers.get('Content-Type') ?? '')) {
    throw new OperationError('unsupported_media_type', 415, 'Content-Type must be application/json.')
  }
  const isDeclaredLonger = Number(headers.get('Content-Length') ?? 0) > maxBytes
  let text: string | undefined
  let value: unknown
  try {
    text = isDeclaredLonger ? undefined : await readUpTo(maxBytes, body, true)
    value = text === undefined ? undefined : JSON.parse(text)
  } catch {
    throw new OperationError('invalid_input', 400, 'The body is not JSON in UTF-8.')
  }
  if (text === undefined) {
    throw new OperationError('body_too_large', 413, `A body may have ${maxBytes} bytes at most.`)
  }
  // JSON.parse has kept the last one.
  const [, name] = findRepeatedName(text) ?? []
  if (name === undefined) return value
  throw new OperationError('invalid_input', 400, `An object of the body has ${JSON.stringify(name)} twice.`)
}
