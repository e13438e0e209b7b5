import type { Reading } from '../../model/policy.ts'
import type { ReceivedRequest } from '../received-request.ts'
import { readBody } from './body.ts'
import { readParameter } from './parameters.ts'
import { NONE, readText, SPOILT } from './reading.ts'

/** Compressed, or in UTF-7, it would say something else to an API that takes it. */
const FORM = /^\s*application\/x-www-form-urlencoded\s*(?:;\s*(?:charset="?utf-8"?\s*)?)*$/i

/** What no API is known to take for a form by its type. */
const OTHER = new RegExp(
  '^\\s*(?:(?:audio|font|image|text|video)/[\\w.+-]+|application/(?:(?:[\\w.-]+\\+)?(?:json|xml|cbor)|octet-stream|pdf' +
    '|zip|gzip|graphql|x-ndjson|(?:x-)?protobuf|grpc(?:[+-][\\w+-]+)?))\\s*(?:;|$)',
  'i',
)
/** Some APIs look for these anywhere in the type, and some for the last of several types. */
const SIGNS_OF_FORM = /multipart|boundary|form|url|,/i

/**
 * A field of an urlencoded body of at most 8 KiB; the body can still be proxied.
 * @returns spoilt for a form that cannot be read: a larger one, one in another charset or coding than UTF-8; for every type
 * that is not plainly something else, such as multipart or none; and where the body has such a field all the same, or is
 * too long to tell, since some APIs (Bottle) ask for no type
 */
export async function readFormField(request: ReceivedRequest, name: string): Promise<Reading> {
  const { headers, body, parsedBody } = request
  if (parsedBody !== undefined) return readParsed(await parsedBody, name)
  if (!body) return NONE
  const type = headers.get('Content-Type') ?? ''
  const isForm = FORM.test(type)
  if (!isForm && (!OTHER.test(type) || SIGNS_OF_FORM.test(type))) return SPOILT
  const text = await readBody(request)
  const reading = text === undefined ? SPOILT : readParameter(text, name)
  return isForm || reading.kind === 'none' ? reading : SPOILT
}

/** What the application sees is what counts, whatever was sent. */
function readParsed(parsedBody: unknown, name: string): Reading {
  if (typeof parsedBody !== 'object' || parsedBody === null) return SPOILT
  const value: unknown = Object.hasOwn(parsedBody, name) ? (parsedBody as Record<string, unknown>)[name] : undefined
  if (value === undefined) return NONE
  return typeof value === 'string' ? readText(value) : SPOILT
}
