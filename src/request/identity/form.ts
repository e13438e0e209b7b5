import type { ReceivedRequest } from '../received-request.ts'
import { readBody } from './body.ts'
import { readParameter } from './parameters.ts'
import { NONE, type Reading, readText, SPOILT } from './reading.ts'

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
  if (!isPlain) return SPOILT
  const text = await readBody(request)
  return text === undefined ? SPOILT : readParameter(text, name)
}

/** What the application sees is what counts, whatever was sent. */
function readParsed(parsedBody: unknown, name: string): Reading {
  if (typeof parsedBody !== 'object' || parsedBody === null) return SPOILT
  const value: unknown = Object.hasOwn(parsedBody, name) ? (parsedBody as Record<string, unknown>)[name] : undefined
  if (value === undefined) return NONE
  return typeof value === 'string' ? readText(value) : SPOILT
}
