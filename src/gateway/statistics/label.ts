/** Reads what people know a caller by: its name, and where it calls from. */
import type { IdentitySource, Reading } from '../../core/model/identity-source.ts'
import type { CallContext } from '../../core/runtime/call-context.ts'
import type { ClaimReader } from '../../http/request/identity/claims.ts'
import type { ReceivedRequest } from '../../http/request/received-request.ts'

/** Returns a promise while a token is verified. */
export type LabelReader = (
  request: ReceivedRequest,
  context: Pick<CallContext, 'waitUntil'>,
) => string | undefined | Promise<string | undefined>

const MAX_LABEL_CHARACTERS = 64

/** @param readClaim needed for a claim only; without it, no caller has one */
export function createLabelReader(source?: IdentitySource, readClaim?: ClaimReader): LabelReader | undefined {
  if (source?.kind === 'header') return ({ headers }) => cleanLabel(headers.get(source.name))
  if (source?.kind !== 'claim' || !readClaim) return undefined
  return ({ headers }, context) => {
    const reading = readClaim(source.path, headers.get('Authorization'), context)
    return reading instanceof Promise ? reading.then(readLabelValue) : readLabelValue(reading)
  }
}

/** Claims are read as JSON. */
function readLabelValue(reading: Reading): string | undefined {
  return reading.kind === 'value' ? cleanLabel(String(JSON.parse(reading.value))) : undefined
}

/** Callers may write anything into a label. */
function cleanLabel(text: string | null): string | undefined {
  const label = text?.trim() ?? ''
  const isCut = label.length > MAX_LABEL_CHARACTERS
  // The cut may leave half of a surrogate pair.
  return (isCut ? `${label.slice(0, MAX_LABEL_CHARACTERS - 1)}…` : label).toWellFormed() || undefined
}

/** Reads where a request comes from as Cloudflare knows it, e.g. `DE`. */
export function readCountry(request: ReceivedRequest): string | undefined {
  const country = (request.cf as { readonly country?: unknown } | null | undefined)?.country
  return typeof country === 'string' && /^[A-Z\d]{2}$/.test(country) ? country : undefined
}
