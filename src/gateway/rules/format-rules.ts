/** How rules read, for the command and the dashboard. */
import type { Block, Override } from './document.ts'

export function formatBlock({ status = 403 }: Block): string {
  return `answered ${status}`
}

export function formatOverride({ limits, multiplier, policies }: Override): string {
  if (limits) return Array.from(Object.entries(limits), (pair) => pair.join(' ')).join('; ')
  const of = policies ? ` of ${policies.join(', ')}` : ''
  return multiplier === undefined ? `unlimited${of}` : `limits × ${multiplier}${of}`
}
