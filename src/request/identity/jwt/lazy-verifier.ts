import type { ClaimReader, JwtSettings } from '../claims.ts'
import type { VerifierParts } from './verify-tokens.ts'

/**
 * A reader of claims whose code, `jose` among it, is loaded when the first token comes.
 * @returns a reader that throws if `jose` is not installed
 */
export function lazyVerifier(settings: JwtSettings, parts: VerifierParts): ClaimReader {
  let loaded: ClaimReader | undefined

  return function readClaim(path, authorization, context) {
    return loaded ? loaded(path, authorization, context) : load().then((read) => read(path, authorization, context))
  }

  // Each request that finds nothing loads it: on Workers, they must not wait for a promise of each other.
  async function load(): Promise<ClaimReader> {
    const { loadTokenVerifier } = await import('./verify-tokens.ts')
    const made = await loadTokenVerifier(settings, parts)
    loaded ??= made
    return loaded
  }
}
