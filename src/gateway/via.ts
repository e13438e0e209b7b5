import { createDigest } from '../request/identity/digest.ts'

const ID_CHARACTERS = 8

export interface ViaOptions {
  readonly keyPrefix: string
  readonly upstreamUrl: string | undefined
  readonly identitySecret: string | undefined
}

/**
 * The name under which this deployment enters itself in `Via` (RFC 9110 §7.6.3): the same in all of its isolates, and
 * different from that of a Sluice before or behind it.
 */
export function createViaName({ keyPrefix, upstreamUrl, identitySecret }: ViaOptions): string {
  const id = createDigest(identitySecret)(['via', keyPrefix, upstreamUrl ?? ''])
  // In one case, because some intermediaries change it.
  return `sluice-${id.slice(0, ID_CHARACTERS).toLowerCase()}`
}

/** Whether a request has been here before. @param via the value of all its `Via` fields */
export function isLoop(via: string | null, name: string): boolean {
  const text = via?.toLowerCase()
  // Even if only a comment names it: a request that claims to have been here may have been.
  return text?.includes(name) === true && text.split(/[\s,()]+/).includes(name)
}
