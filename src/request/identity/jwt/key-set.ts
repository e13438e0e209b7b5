import type { CompactJWSHeaderParameters, CryptoKey, JWK } from 'jose'
import type { CallContext } from '../../../runtime/call-context.ts'
import type { Log } from '../../../runtime/log.ts'
import { readUpTo } from '../body.ts'

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

export interface KeySetOptions {
  readonly url: string
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number
  readonly log: Log
}

/** Keys of this age are still used, and others are asked for behind a request. */
const FRESH_MS = 10 * 60_000
/** While there are keys, others are asked for at most this often because of their age, and because of unknown ones. */
const ASK_AGAIN_MS = 30_000
/** The same while there are none. */
const RETRY_MS = 1_000
/** Time for the whole answer. */
const TIMEOUT_MS = 2_000
/** How often a request looks whether another one has received the keys. */
const POLL_MS = 10
/** The largest sets in use have 20 KB. */
const MAX_BYTES = 128 * 1024

type FindKey = (header: CompactJWSHeaderParameters) => Promise<CryptoKey>

/**
 * The keys behind a URL, for one isolate. On Workers, requests cannot wait for the I/O of each other: what they share is
 * plain data, and one that needs keys which another one is fetching looks at that data until they are there.
 */
export class KeySet {
  readonly #jose: Jose
  readonly #options: KeySetOptions
  #find: FindKey | undefined
  #fetchedAtMs = 0
  #askedAtMs = Number.NEGATIVE_INFINITY
  #unknownAtMs = Number.NEGATIVE_INFINITY
  #isAsking = false

  constructor(jose: Jose, options: KeySetOptions) {
    this.#jose = jose
    this.#options = options
  }

  /**
   * The key that a token names.
   * @throws {JOSEError} if there is none, or more than one
   */
  async find(header: CompactJWSHeaderParameters, context: Pick<CallContext, 'waitUntil'>): Promise<CryptoKey> {
    const { JWKSNoMatchingKey } = this.#jose.errors
    const before = this.#find
    if (!before) await this.#refresh(this.#elapsedMs(this.#askedAtMs) >= RETRY_MS, context)
    else if (this.#isStale()) context.waitUntil(this.#ask())
    const find = this.#find
    if (!find) throw new JWKSNoMatchingKey()
    try {
      return await find(header)
    } catch (error) {
      if (!(error instanceof JWKSNoMatchingKey) || find !== before) throw error
      // It may be a new one.
      await this.#refresh(this.#mayBeNew(), context)
      const found = this.#find
      if (!found || found === find) throw error
      return found(header)
    }
  }

  /** Whether others are to be asked for behind a request. */
  #isStale(): boolean {
    const isOld = this.#elapsedMs(this.#fetchedAtMs) >= FRESH_MS
    return isOld && this.#elapsedMs(this.#askedAtMs) >= ASK_AGAIN_MS && !this.#isAsked()
  }

  /** Whether an unknown key is a reason to ask, which makes it none for a while. */
  #mayBeNew(): boolean {
    const may = this.#elapsedMs(this.#unknownAtMs) >= ASK_AGAIN_MS
    if (may) this.#unknownAtMs = this.#options.now()
    return may
  }

  /** Waits for the keys that another request has asked for; else asks for them, if it is time. */
  async #refresh(isTime: boolean, context: Pick<CallContext, 'waitUntil'>): Promise<void> {
    if (this.#isAsked()) {
      for (let waitedMs = 0; waitedMs < TIMEOUT_MS && this.#isAsked(); waitedMs += POLL_MS) await sleep(POLL_MS)
    } else if (isTime) {
      const asked = this.#ask()
      // For the others, if this request's client goes away.
      context.waitUntil(asked)
      await asked
    }
  }

  /** The platform may have ended the request that asked. */
  #isAsked(): boolean {
    return this.#isAsking && this.#elapsedMs(this.#askedAtMs) <= TIMEOUT_MS
  }

  /** Whatever comes of it, the keys that were there stay until there are others. */
  async #ask(): Promise<void> {
    const { log, now } = this.#options
    this.#askedAtMs = now()
    this.#isAsking = true
    try {
      this.#find = this.#jose.createLocalJWKSet({ keys: await this.#fetchKeys() }) as FindKey
      this.#fetchedAtMs = now()
    } catch (error) {
      const message = error instanceof KeysError ? error.message : 'no answer in time, or none at all'
      log('error', { event: 'jwks_unavailable', message, hasOlder: this.#find !== undefined })
    } finally {
      this.#isAsking = false
    }
  }

  async #fetchKeys(): Promise<JWK[]> {
    const { url, fetch } = this.#options
    const response = await fetch(url, {
      headers: { Accept: 'application/json' },
      // The URL was chosen by the operator: keys come from nowhere else.
      redirect: 'manual',
      signal: AbortSignal.timeout(TIMEOUT_MS),
    })
    if (response.status !== 200) {
      await response.body?.cancel()
      throw new KeysError(`status ${response.status}`)
    }
    const text = await readUpTo(MAX_BYTES, response.body)
    if (text === undefined) throw new KeysError(`more than ${MAX_BYTES} bytes`)
    const keys = publicKeysIn(text)
    if (keys.length === 0) throw new KeysError('no public keys in it')
    return keys
  }

  /** A clock that was set back must not stop anything. */
  #elapsedMs(sinceMs: number): number {
    const elapsedMs = this.#options.now() - sinceMs
    return elapsedMs < 0 ? Number.POSITIVE_INFINITY : elapsedMs
  }
}

class KeysError extends Error {}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

/** A shared secret has no place in a set that everybody can read: a token that it verifies could be anybody's. */
function publicKeysIn(text: string): JWK[] {
  const set: unknown = parse(text)
  const keys = typeof set === 'object' && set !== null && 'keys' in set && Array.isArray(set.keys) ? set.keys : []
  return keys.filter(
    (key) => typeof key === 'object' && key !== null && /^(?:RSA|EC|OKP)$/.test(key.kty) && !('d' in key),
  )
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new KeysError('no JSON')
  }
}
