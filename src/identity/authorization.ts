/**
 * One spelling for one credential: the scheme in lower case (RFC 9110 §11.1) and single spaces between, so that
 * `bearer  X` and `Bearer X` are one caller.
 * @returns undefined if there is no credential
 */
export function normalizeAuthorization(value: string | null): string | undefined {
  const [scheme, ...credentials] = (value ?? '').trim().split(/\s+/)
  if (!scheme) return undefined
  return credentials.length > 0 ? [scheme.toLowerCase(), ...credentials].join(' ') : scheme
}
