import { createHash, timingSafeEqual } from 'node:crypto'

/** Whether a text is the token. How long that takes says nothing about either. */
export type IsToken = (text: string) => boolean

export function createTokenCheck(token: string): IsToken {
  const expected = sha256(token)
  // Of the same length, whatever was sent.
  return (text) => timingSafeEqual(sha256(text), expected)
}

function sha256(text: string): Uint8Array {
  return createHash('sha256').update(text).digest()
}
