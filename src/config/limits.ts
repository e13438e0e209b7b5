import type { Tier } from '../store/store.ts'

const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 }
type Unit = keyof typeof UNIT_MS

/** Above this, totals could outgrow the integers that Lua and JavaScript share. */
const MAX_LIMIT = 1_000_000_000
const MAX_WINDOW_MS = 53 * UNIT_MS.w

export const LIMITS_EXPECTED =
  'tiers such as "10/1s, 120/1m": limits from 1 to 1000000000, windows up to 53w, each once (units ms s m h d w)'

/**
 * Reads `<limit>/<window>, …`, e.g. `10/1s, 120/1m`, into tiers ordered by window.
 * @returns undefined for anything but what `LIMITS_EXPECTED` says
 */
export function parseLimits(text: string): readonly Tier[] | undefined {
  const tiers: Tier[] = []
  for (const part of text.split(',')) {
    const [, limit, count, unit] = /^\s*(\d{1,10})\/(\d{1,11})(ms|[smhdw])\s*$/.exec(part) ?? []
    const tier = { limit: Number(limit), windowMs: Number(count) * UNIT_MS[unit as Unit] }
    const isValid = tier.limit >= 1 && tier.limit <= MAX_LIMIT && tier.windowMs >= 1 && tier.windowMs <= MAX_WINDOW_MS
    if (!isValid || tiers.some(({ windowMs }) => windowMs === tier.windowMs)) return undefined
    tiers.push(tier)
  }
  return tiers.sort((a, b) => a.windowMs - b.windowMs)
}

/** A window in its largest whole unit, e.g. `1m` for 60,000 ms. */
export function formatWindow(windowMs: number): string {
  const units = Object.entries(UNIT_MS).reverse()
  const [unit, unitMs] = units.find(([, ms]) => windowMs % ms === 0) ?? ['ms', 1]
  return `${windowMs / unitMs}${unit}`
}
