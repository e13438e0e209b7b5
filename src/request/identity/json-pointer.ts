/**
 * Reads a JSON Pointer (RFC 6901) to a member, e.g. `/user/id`.
 * @returns undefined for anything else, and for the pointer to the whole
 */
export function parsePointer(text: string): readonly string[] | undefined {
  if (!/^(?:\/(?:[^~/]|~[01])*)+$/.test(text)) return undefined
  const tokens = text.slice(1).split('/')
  return tokens.map((token) => token.replaceAll('~1', '/').replaceAll('~0', '~'))
}
