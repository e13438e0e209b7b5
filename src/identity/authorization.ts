/**
 * One spelling for one credential: the scheme in lower case (RFC 9110 §11.1) and single spaces between, so that
 * `bearer  X` and `Bearer X` are one caller.
 * @returns undefined if there is none, and for a Bearer or Basic that is not one word: some APIs would take the first of
 * several, so that whatever follows it made the same caller another one each time
 */
export function normalizeAuthorization(value: string | null): string | undefined {
  const [scheme, ...credentials] = (value ?? '').trim().split(/\s+/)
  if (!scheme) return undefined
  if (/^(?:bearer|basic)$/i.test(scheme) && (credentials.length !== 1 || credentials[0]?.includes(',')))
    return undefined
  return credentials.length > 0 ? [scheme.toLowerCase(), ...credentials].join(' ') : scheme
}
