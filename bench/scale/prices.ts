/** What providers publish, in dollars. Beyond what is included in a plan, and without what every Worker costs. */
import type { ScaleFigures } from './simulate.ts'

interface Price {
  readonly of: string
  readonly dollars: number
  readonly source: string
  /** When it was read there, or in a copy of that day. */
  readonly read: string
}

const CLOUDFLARE = 'https://developers.cloudflare.com/durable-objects/platform/pricing/'
const UPSTASH = 'https://upstash.com/pricing/redis'

export const PRICES = {
  commands: { of: '100,000 commands, pay as you go', dollars: 0.2, source: UPSTASH, read: '2026-11-09' },
  calls: { of: 'a million requests to objects, alarms included', dollars: 0.15, source: CLOUDFLARE, read: '2026' },
  rowsWritten: { of: 'a million rows written, alarms set included', dollars: 1, source: CLOUDFLARE, read: '2026' },
  rowsRead: { of: 'a million rows read', dollars: 0.001, source: CLOUDFLARE, read: '2026' },
  gbSeconds: { of: 'a million GB-s of duration', dollars: 12.5, source: CLOUDFLARE, read: '2026' },
} as const satisfies Readonly<Record<string, Price>>

/** Computes what a million requests cost. */
export function computeDollars(
  { commands, calls, rowsWritten, rowsRead, gbSeconds }: ScaleFigures,
  store: string,
): number {
  if (store === 'redis') return commands * 10 * PRICES.commands.dollars
  return (
    calls * PRICES.calls.dollars +
    rowsWritten * PRICES.rowsWritten.dollars +
    rowsRead * PRICES.rowsRead.dollars +
    gbSeconds * PRICES.gbSeconds.dollars
  )
}
