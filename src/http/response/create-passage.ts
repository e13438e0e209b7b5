/** Makes the stream that a body goes through on its way to the client. */

/**
 * Keeps the length of the body, if it is known and the runtime needs it.
 * @param keepsEncoding bodies are read as they are encoded; else the runtime decodes what is read, and encodes it again
 */
export function createPassage(headers: Headers, keepsEncoding: boolean): TransformStream<Uint8Array, Uint8Array> {
  if (typeof FixedLengthStream === 'undefined') return new TransformStream()
  const length = Number(headers.get('Content-Length') ?? Number.NaN)
  // Content-Length is that of the encoded body.
  const isOfBody = keepsEncoding || !headers.has('Content-Encoding')
  return Number.isSafeInteger(length) && length >= 0 && isOfBody
    ? new FixedLengthStream(length)
    : new IdentityTransformStream()
}
