/** What is used of the package. */
export type Jose = Pick<typeof import('jose'), 'createLocalJWKSet' | 'decodeProtectedHeader' | 'errors' | 'jwtVerify'>

/**
 * Loads the package, which is installed only where policies ask for claims.
 * @throws {Error} if it is not
 */
export async function loadJose(): Promise<Jose> {
  try {
    // By name, so that a bundler leaves out the rest.
    const { createLocalJWKSet, decodeProtectedHeader, errors, jwtVerify } = await import('jose')
    return { createLocalJWKSet, decodeProtectedHeader, errors, jwtVerify }
  } catch (cause) {
    throw new Error('claims need the package "jose": npm install jose', { cause })
  }
}
