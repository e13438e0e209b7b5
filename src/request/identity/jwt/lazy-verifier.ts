import type { ClaimReader, JwtSettings } from '../claims.ts'
import type { VerifierParts } from './verify-tokens.ts'

/** Makes a reader that loads `jose` for the first token, and throws if it is not installed. */
export function lazyVerifier(settings: JwtSettings, parts: VerifierParts): ClaimReader {
  let loaded: ClaimReader | undefined

  return function readClaim(path, authorization, context) {
    return loaded ? loaded(path, authorization, context) : load().then((read) => read(path, authorization, context))
  }

  // On Workers, no request may wait for a promise of another one: each loads the code if it must.
  async function load(): Promise<ClaimReader> {
    const { loadTokenVerifier } = await import('./verify-tokens.ts')
    const verifier = await loadTokenVerifier(settings, parts)
    loaded ??= verifier
    return loaded
  }
}
