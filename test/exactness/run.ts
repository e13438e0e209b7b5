import { startRedisServer } from '../../tools/redis-server.ts'
import { startRestFront } from '../../tools/rest-front.ts'
import type { Bundle } from '../support/build-bundle.ts'
import { startPointOfPresence } from '../support/point-of-presence.ts'
import { startUpstream } from '../support/upstream.ts'
import { type Audit, audit } from './audit.ts'
import { Ledger } from './ledger.ts'
import { record } from './redis-record.ts'
import { type Outcome, sendTraffic } from './traffic.ts'
import { checkWindows, type Tier, type WindowCheck } from './windows.ts'

/** Windows short enough that many pass, and limits that all of the tiers come to refuse by. */
const POLICIES: Readonly<Record<string, readonly Tier[]>> = {
  caller: [
    { limit: 40, windowMs: 1_000 },
    { limit: 90, windowMs: 3_000 },
    { limit: 240, windowMs: 10_000 },
  ],
  team: [
    { limit: 70, windowMs: 1_000 },
    { limit: 330, windowMs: 6_000 },
  ],
}
const POINTS = 4
const CALLERS_PER_TEAM = 10
const MAX_COST = 8

export interface RunOptions {
  readonly bundle: Bundle
  readonly requests: number
  readonly callers: number
  readonly seed: number
}

/** A check of all windows of one tier. */
export interface TierCheck extends WindowCheck {
  readonly policy: string
  readonly tier: Tier
}

export interface Findings {
  readonly outcomes: readonly Outcome[]
  readonly audit: Audit
  readonly ledger: Ledger
  /** By the times in Redis's streams. */
  readonly tiers: readonly TierCheck[]
  /** By the clients' clocks, which are less sharp and know nothing of Redis. */
  readonly byClients: WindowCheck
}

/** Sends the traffic through four points of presence, and checks each decision and each window. */
export async function run({ bundle, requests, callers, seed }: RunOptions): Promise<Findings> {
  const stops: (() => Promise<void>)[] = []
  const started = async <T extends { stop(): Promise<void> }>(starting: Promise<T>): Promise<T> => {
    const part = await starting
    stops.unshift(() => part.stop())
    return part
  }
  try {
    const redis = await started(startRedisServer())
    const front = await started(startRestFront({ redisPort: redis.port, token: 'exactness' }))
    const upstream = await started(startUpstream((_request, response) => response.end('hello')))
    const bindings = {
      UPSTREAM_URL: upstream.url,
      UPSTASH_REDIS_REST_URL: front.url,
      UPSTASH_REDIS_REST_TOKEN: front.token,
      POLICIES: [
        { name: 'caller', limits: limitsOf('caller'), by: 'token', cost: 'header:x-cost', max_cost: MAX_COST },
        { name: 'team', limits: limitsOf('team'), by: 'header:x-team' },
      ],
      // A slow machine is no reason to count on one's own.
      STORE_TIMEOUT_MS: 30_000,
      ON_STORE_ERROR: 'closed',
    }
    const points = await Promise.all(
      Array.from({ length: POINTS }, () => started(startPointOfPresence(bundle, bindings))),
    )

    const ledger = new Ledger((key) => POLICIES[key.split(':')[1] ?? ''] ?? [])
    const recording = await record(redis.port, (decision) => ledger.add(decision))
    const outcomes = await sendTraffic({
      gateways: points.map(({ url }) => url),
      requests,
      callers,
      teams: Math.ceil(callers / CALLERS_PER_TEAM),
      maxCost: MAX_COST,
      windowMs: Math.min(...Object.values(POLICIES).flatMap((tiers) => tiers.map(({ windowMs }) => windowMs))),
      seed,
    })
    await recording.stop()
    return {
      outcomes,
      ledger,
      audit: audit(outcomes, ledger, callers),
      tiers: Object.entries(POLICIES).flatMap(([policy, tiers]) =>
        tiers.map((tier) => ({ policy, tier, ...byRedis(ledger, policy, tier) })),
      ),
      byClients: byClients(outcomes),
    }
  } finally {
    for (const stop of stops) await stop()
  }
}

function limitsOf(policy: string): string {
  return (POLICIES[policy] ?? []).map(({ limit, windowMs }) => `${limit}/${windowMs}ms`).join(', ')
}

function byRedis(ledger: Ledger, policy: string, tier: Tier): WindowCheck {
  const keys = ledger.keys.filter((key) => key.split(':')[1] === policy)
  return sum(keys.map((key) => checkWindows(tier, ledger.admissions(key))))
}

function byClients(outcomes: readonly Outcome[]): WindowCheck {
  const admitted = outcomes.filter(({ status }) => status === 200)
  const checks = [...Map.groupBy(admitted, ({ caller }) => caller).values()].flatMap((own) => {
    const admissions = own.map(({ sentMs, receivedMs, cost }) => ({ earliestMs: sentMs, latestMs: receivedMs, cost }))
    return (POLICIES.caller ?? []).map((tier) => checkWindows(tier, admissions))
  })
  return sum(checks)
}

function sum(checks: readonly WindowCheck[]): WindowCheck {
  return {
    windows: checks.reduce((windows, check) => windows + check.windows, 0),
    over: checks.reduce((over, check) => over + check.over, 0),
    fullest: Math.max(0, ...checks.map(({ fullest }) => fullest)),
  }
}
