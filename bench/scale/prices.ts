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

/** Prices of a database at Upstash with a fixed plan, the cheapest first, as read on 27 November 2026. */
export const FIXED_PLANS = [
  { dollars: 10, gb: 0.25, trafficGb: 50, commandsPerS: 10_000 },
  { dollars: 20, gb: 1, trafficGb: 100, commandsPerS: 10_000 },
  { dollars: 100, gb: 5, trafficGb: 500, commandsPerS: 10_000 },
  { dollars: 200, gb: 10, trafficGb: 1_000, commandsPerS: 10_000 },
  { dollars: 400, gb: 50, trafficGb: 5_000, commandsPerS: 10_000 },
  { dollars: 800, gb: 100, trafficGb: 10_000, commandsPerS: 16_000 },
  { dollars: 1_500, gb: 500, trafficGb: 20_000, commandsPerS: 16_000 },
] as const

/** Traffic of a database with pay as you go, GB a month, and dollars for each more. */
export const PAY_AS_YOU_GO = { freeTrafficGb: 200, dollarsPerGb: 0.03 } as const

/** The paid plan of Workers a month, and millions that it includes. */
export const WORKERS_PAID = { dollars: 5, calls: 1, rowsWritten: 50 } as const

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
