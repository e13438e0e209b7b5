/** Fetches the keys that verify tokens, and keeps them. */
import type { CompactJWSHeaderParameters, CryptoKey, JWK } from 'jose'
import type { CallContext } from '../../../../core/runtime/call-context.ts'
import type { Log } from '../../../../core/runtime/log.ts'
import { sleep } from '../../../../core/runtime/sleep.ts'
import { readUpTo } from '../body.ts'

export type Jose = Pick<typeof import('jose'), 'createLocalJWKSet' | 'decodeProtectedHeader' | 'errors' | 'jwtVerify'>

export async function loadJose(): Promise<Jose> {
  // Named, so that a bundler removes the rest.
  const { createLocalJWKSet, decodeProtectedHeader, errors, jwtVerify } = await import('jose')
  return { createLocalJWKSet, decodeProtectedHeader, errors, jwtVerify }
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

/** @throws {JOSEError} if the header of a token does not name exactly one key */
export type KeyFinder = (
  header: CompactJWSHeaderParameters,
  context: Pick<CallContext, 'waitUntil'>,
) => Promise<CryptoKey>

/**
 * Finds keys behind a URL, for one isolate. On Workers, a request cannot wait for the I/O of another one: they share plain
 * data, and a request polls that data for keys which another one is fetching.
 */
export function createKeySet({ createLocalJWKSet, errors }: Jose, { url, fetch, now, log }: KeySetOptions): KeyFinder {
  let find: ((header: CompactJWSHeaderParameters) => Promise<CryptoKey>) | undefined
  let fetchedAtMs = 0
  let fetchStartedAtMs = Number.NEGATIVE_INFINITY
  let unknownKeyAtMs = Number.NEGATIVE_INFINITY
  let hasFetchStarted = false

  return async function findKey(header, context) {
    const before = find
    if (!before) await awaitKeys(isOver(RETRY_MS, fetchStartedAtMs), context)
    else if (isOver(FRESH_MS, fetchedAtMs) && isOver(REFETCH_MS, fetchStartedAtMs) && !isFetching())
      context.waitUntil(update())
    const known = find
    if (!known) throw new errors.JWKSNoMatchingKey()
    try {
      return await known(header)
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey) || known !== before) throw error
      // The issuer may have added the key; an unknown one is a reason to fetch at most once in a while.
      const mayBeNew = isOver(REFETCH_MS, unknownKeyAtMs)
      if (mayBeNew) unknownKeyAtMs = now()
      await awaitKeys(mayBeNew, context)
      if (!find || find === known) throw error
      return find(header)
    }
  }

  /** Waits for the fetch of another request; else starts one, if it is time. */
  async function awaitKeys(isTime: boolean, context: Pick<CallContext, 'waitUntil'>): Promise<void> {
    if (isFetching()) {
      for (let waitedMs = 0; waitedMs < TIMEOUT_MS && isFetching(); waitedMs += POLL_MS) await sleep(POLL_MS)
    } else if (isTime) {
      const updating = update()
      // Others need the keys, even if this request's client disconnects.
      context.waitUntil(updating)
      await updating
    }
  }

  /** The platform may have ended the request that was fetching. */
  function isFetching(): boolean {
    return hasFetchStarted && !isOver(TIMEOUT_MS, fetchStartedAtMs)
  }

  /** Keys stay until others have been received. */
  async function update(): Promise<void> {
    fetchStartedAtMs = now()
    hasFetchStarted = true
    try {
      find = createLocalJWKSet({ keys: await fetchKeys(fetch, url) }) as typeof find
      fetchedAtMs = now()
    } catch (error) {
      const message = error instanceof KeysError ? error.message : 'no answer in time, or none at all'
      log('error', { event: 'jwks_unavailable', message, hasOlder: find !== undefined })
    } finally {
      hasFetchStarted = false
    }
  }

  /** Fetches must not stop after a clock was set back. */
  function isOver(durationMs: number, sinceMs: number): boolean {
    const elapsedMs = now() - sinceMs
    return elapsedMs < 0 || elapsedMs >= durationMs
  }
}

async function fetchKeys(fetch: KeySetOptions['fetch'], url: string): Promise<JWK[]> {
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
