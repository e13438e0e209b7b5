import type { IdentitySource, Reading } from '../model/policy.ts'
import type { ClaimReader } from '../request/identity/claims.ts'
import type { ReceivedRequest } from '../request/received-request.ts'
import type { CallContext } from '../runtime/call-context.ts'

/** Where the name stands by which people know a caller. */
export type LabelSource =
  | { readonly kind: 'header'; readonly name: string }
  | Extract<IdentitySource, { readonly kind: 'claim' }>

/**
 * Reads the name by which people know who has sent a request; undefined if it has none. A promise of it while a token is
 * verified for it.
 */
export type LabelReader = (
  request: ReceivedRequest,
  context: Pick<CallContext, 'waitUntil'>,
) => string | undefined | Promise<string | undefined>

/** Longer ones are cut. */
const MAX_LABEL_CHARACTERS = 64

/** @param readClaim needed for a claim only; without it, no caller has one */
export function createLabelReader(source: LabelSource | undefined, readClaim?: ClaimReader): LabelReader | undefined {
  if (source?.kind === 'header') return ({ headers }) => shown(headers.get(source.name))
  if (source?.kind !== 'claim' || !readClaim) return undefined
  return ({ headers }, context) => {
    const reading = readClaim(source.path, headers.get('Authorization'), context)
    return reading instanceof Promise ? reading.then(labelIn) : labelIn(reading)
  }
}

/** Claims are read as JSON. */
function labelIn(reading: Reading): string | undefined {
  return reading.kind === 'value' ? shown(String(JSON.parse(reading.value))) : undefined
}

/** For people to read: callers may write anything into it. */
function shown(text: string | null): string | undefined {
  // Half of a character that takes two code units is none.
  return text?.trim().slice(0, MAX_LABEL_CHARACTERS).toWellFormed() || undefined
}
