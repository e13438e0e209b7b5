/** Entries of the document, as people read them. */
import type { Block, Override } from './document.ts'
import type { Target } from './target.ts'

/** Whom an entry is about. */
export function whoInWords({ by, digest, value, cidr, country, asn }: Target): string {
  if (cidr !== undefined) return cidr
  if (country !== undefined) return `country ${country}`
  if (asn !== undefined) return `AS${asn}`
  return [by, value ?? digest].filter((part) => part !== undefined).join(' ')
}

/** What a block answers. */
export function blockInWords({ status = 403 }: Block): string {
  return `answered ${status}`
}

/** Which limits an override gives. */
export function limitsInWords({ limits, times, policies }: Override): string {
  if (limits) {
    return Object.entries(limits)
      .map((pair) => pair.join(' '))
      .join('; ')
  }
  const of = policies ? ` of ${policies.join(', ')}` : ''
  return times === undefined ? `unlimited${of}` : `${times} times the limits${of}`
}
