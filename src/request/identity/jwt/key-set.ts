import type { CompactJWSHeaderParameters, CryptoKey, JWK } from 'jose'
import type { CallContext } from '../../../runtime/call-context.ts'
import type { Log } from '../../../runtime/log.ts'
import { sleep } from '../../../runtime/sleep.ts'
import { readUpTo } from '../body.ts'

export type Jose = Pick<typeof import('jose'), 'createLocalJWKSet' | 'decodeProtectedHeader' | 'errors' | 'jwtVerify'>

/** @throws {Error} if the optional package is not installed */
export async function loadJose(): Promise<Jose> {
  try {
    // Named, so that a bundler removes the rest.
    const { createLocalJWKSet, decodeProtectedHeader, errors, jwtVerify } = await import('jose')
    return { createLocalJWKSet, decodeProtectedHeader, errors, jwtVerify }
  } catch (cause) {
    throw new Error('claims need the package "jose": npm install jose', { cause })
  }
}

export interface KeySetOptions {
  readonly url: string
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>
  readonly now: () => number
  readonly log: Log
}

/** Older keys are still used while new ones are fetched in the background. */
const FRESH_MS = 10 * 60_000
/** Minimum interval between fetches because of age, and between those because of unknown keys. */
const REFETCH_MS = 30_000
/** Minimum interval between fetches while there are no keys. */
const RETRY_MS = 1_000
/** Covers the whole response. */
const TIMEOUT_MS = 2_000
/** Interval at which a request looks for the keys that another one fetches. */
const POLL_MS = 10
/** The largest sets in use have 20 KB. */
const MAX_BYTES = 128 * 1024

type FindKey = (header: CompactJWSHeaderParameters) => Promise<CryptoKey>

/**
 * The keys behind a URL, for one isolate. On Workers, a request cannot wait for the I/O of another one: they share plain
 * data, and a request polls that data for keys which another one is fetching.
 */
export class KeySet {
  readonly #jose: Jose
  readonly #options: KeySetOptions
  #find: FindKey | undefined
  #fetchedAtMs = 0
  #fetchStartedAtMs = Number.NEGATIVE_INFINITY
  #unknownKeyAtMs = Number.NEGATIVE_INFINITY
  #hasFetchStarted = false

  constructor(jose: Jose, options: KeySetOptions) {
    this.#jose = jose
    this.#options = options
  }

  /** @throws {JOSEError} if the header of a token does not name exactly one key */
  async find(header: CompactJWSHeaderParameters, context: Pick<CallContext, 'waitUntil'>): Promise<CryptoKey> {
    const { JWKSNoMatchingKey } = this.#jose.errors
    const before = this.#find
    if (!before) await this.#refresh(this.#findElapsedMs(this.#fetchStartedAtMs) >= RETRY_MS, context)
    else if (this.#isStale()) context.waitUntil(this.#update())
    const find = this.#find
    if (!find) throw new JWKSNoMatchingKey()
    try {
      return await find(header)
    } catch (error) {
      if (!(error instanceof JWKSNoMatchingKey) || find !== before) throw error
      // The issuer may have added the key.
      await this.#refresh(this.#mayBeNew(), context)
      const found = this.#find
      if (!found || found === find) throw error
      return found(header)
    }
  }

  #isStale(): boolean {
    const isOld = this.#findElapsedMs(this.#fetchedAtMs) >= FRESH_MS
    return isOld && this.#findElapsedMs(this.#fetchStartedAtMs) >= REFETCH_MS && !this.#isFetching()
  }

  /** Accepts an unknown key as a reason to fetch, at most once in a while. */
  #mayBeNew(): boolean {
    const mayBeNew = this.#findElapsedMs(this.#unknownKeyAtMs) >= REFETCH_MS
    if (mayBeNew) this.#unknownKeyAtMs = this.#options.now()
    return mayBeNew
  }

  /** Waits for the fetch of another request; else starts one, if it is time. */
  async #refresh(isTime: boolean, context: Pick<CallContext, 'waitUntil'>): Promise<void> {
    if (this.#isFetching()) {
      for (let waitedMs = 0; waitedMs < TIMEOUT_MS && this.#isFetching(); waitedMs += POLL_MS) await sleep(POLL_MS)
    } else if (isTime) {
      const update = this.#update()
      // Others need the keys, even if this request's client disconnects.
      context.waitUntil(update)
      await update
    }
  }

  /** The platform may have ended the request that was fetching. */
  #isFetching(): boolean {
    return this.#hasFetchStarted && this.#findElapsedMs(this.#fetchStartedAtMs) <= TIMEOUT_MS
  }

  /** Keys stay until others have been received. */
  async #update(): Promise<void> {
    const { log, now } = this.#options
    this.#fetchStartedAtMs = now()
    this.#hasFetchStarted = true
    try {
      this.#find = this.#jose.createLocalJWKSet({ keys: await this.#fetchKeys() }) as FindKey
      this.#fetchedAtMs = now()
    } catch (error) {
      const message = error instanceof KeysError ? error.message : 'no answer in time, or none at all'
      log('error', { event: 'jwks_unavailable', message, hasOlder: this.#find !== undefined })
    } finally {
      this.#hasFetchStarted = false
    }
  }

  async #fetchKeys(): Promise<JWK[]> {
    const { url, fetch } = this.#options
    const response = await fetch(url, {
      headers: { Accept: 'application/json' },
      // Keys come only from the URL that the operator has chosen.
      redirect: 'manual',
      signal: AbortSignal.timeout(TIMEOUT_MS),
    })
    if (response.status !== 200) {
      await response.body?.cancel()
      throw new KeysError(`status ${response.status}`)
    }
    const text = await readUpTo(MAX_BYTES, response.body)
    if (text === undefined) throw new KeysError(`more than ${MAX_BYTES} bytes`)
    const keys = parsePublicKeys(text)
    if (keys.length === 0) throw new KeysError('no public keys in it')
    return keys
  }

  /** Fetches must not stop after a clock was set back. */
  #findElapsedMs(sinceMs: number): number {
    const elapsedMs = this.#options.now() - sinceMs
    return elapsedMs < 0 ? Number.POSITIVE_INFINITY : elapsedMs
  }
}

class KeysError extends Error {}

/** A shared secret does not belong in a public set: anyone could sign the tokens that it verifies. */
function parsePublicKeys(text: string): JWK[] {
  let set: unknown
  try {
    set = JSON.parse(text)
  } catch {
    throw new KeysError('no JSON')
  }
  const keys = typeof set === 'object' && set !== null && 'keys' in set && Array.isArray(set.keys) ? set.keys : []
  return keys.filter(
    (key) => typeof key === 'object' && key !== null && /^(?:RSA|EC|OKP)$/.test(key.kty) && !('d' in key),
  )
}
