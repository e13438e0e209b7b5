/**
 * Writes pictures of the dashboard into docs/dashboard/: `npm run screenshots`. The gateway is real, and so are the
 * callers of the last minute; of the four hours before, and of the next minutes, what isolates would have counted is made
 * up.
 */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { type BrowserContextOptions, chromium } from 'playwright-core'
import { createDigest } from '../src/core/runtime/digest.ts'
import type { Period, StatisticsStore } from '../src/core/store/counters.ts'
import { RedisCounters } from '../src/core/store/redis/counters/redis-counters.ts'
import { connectUpstash } from '../src/core/store/redis/upstash-backend.ts'
import { COUNT_NAMES, EVERYWHERE, REFUSED_CALLERS, REFUSING_RULES } from '../src/gateway/statistics/metrics.ts'
import { RECENT, RecentRefusals } from '../src/gateway/statistics/recent.ts'
import { startDevWorker } from './dev-worker.ts'
import { startEchoUpstream } from './echo-upstream.ts'
import { findChromium } from './find-chromium.ts'
import { startRedisServer } from './redis-server.ts'
import { startRestFront } from './rest-front.ts'

const FOLDER = join(import.meta.dirname, '../docs/dashboard')
const MINUTE_MS = 60_000
const MINUTES = 240
/** Minutes that end while pictures are taken. */
const MINUTES_AHEAD = 5
const ADMIN_TOKEN = 'a-token-for-screenshots-0123456789abcdef'
const KEY_PREFIX = 'screenshots'
const SCRAPERS = '203.0.113.0/24'
const BUSIEST = 'Bearer the-busiest-caller'
const digest = createDigest(undefined)

const redis = await startRedisServer()
const front = await startRestFront({ redisPort: redis.port, token: 'screenshots' })
const upstream = await startEchoUpstream()
const database = { url: front.url, token: front.token }
const client = connectUpstash(database, 10_000)
await countPast(new RedisCounters({ client, keyPrefix: KEY_PREFIX, timeoutMs: 10_000 }))
const url = await startDevWorker({
  port: 0,
  variables: {
    UPSTREAM_URL: upstream.url,
    UPSTASH_REDIS_REST_URL: front.url,
    UPSTASH_REDIS_REST_TOKEN: front.token,
    KEY_PREFIX,
    RATE_LIMITS: '30/1m, 400/1h',
    POLICIES: [
      { name: 'login', limits: '5/1m, 20/1h', by: 'ip', match: 'POST /login' },
      {
        name: 'tokens',
        limits: '100000/1m',
        match: 'POST /v1/*',
        actual_cost: 'json:/usage/total_tokens',
        untold: 'bytes/4',
        algorithm: 'token-bucket',
      },
    ],
    STATISTICS: 'on',
    RULES: 'on',
    RULES_REFRESH_MS: 100,
    ADMIN_TOKEN,
  },
})
for (let at = 0; at < 27; at++) await call('GET', '/things', BUSIEST)
for (let at = 0; at < 4; at++) await call('POST', '/login', BUSIEST)
await changeRules('/block', {
  target: { cidr: SCRAPERS },
  reason: 'scraping',
  for: '1d',
  actor: 'ann',
  comment: 'scrapers again',
})
await changeRules('/override', {
  target: { token: 'Bearer a-large-customer' },
  multiplier: 10,
  actor: 'ben',
  comment: 'their launch day',
})

const VIEWS = { now: '#now', caller: `#caller/${digest(['token', 'the-busiest-caller'])}`, rules: '#rules' } as const
const SIZES = { desktop: { width: 1100, height: 900 }, phone: { width: 390, height: 844 } } as const
const SCHEMES = ['light', 'dark'] as const

mkdirSync(FOLDER, { recursive: true })
const browser = await chromium.launch({ executablePath: await findChromium(), args: ['--no-sandbox'] })
for (const [view, hash] of Object.entries(VIEWS)) {
  for (const [size, viewport] of Object.entries(SIZES)) {
    for (const colorScheme of SCHEMES) await show(view, hash, `${size}-${colorScheme}`, { colorScheme, viewport })
  }
}
await browser.close()
// All that was started is part of this process or ends with it.
process.exit(0)

async function show(view: string, hash: string, kind: string, options: BrowserContextOptions): Promise<void> {
  const context = await browser.newContext({ baseURL: url, ...options })
  const page = await context.newPage()
  await page.goto(`/_sluice/${hash}`)
  await page.getByLabel('Admin token').fill(ADMIN_TOKEN)
  await page.getByRole('button', { name: 'Log in' }).click()
  await page.getByRole('table').first().waitFor()
  await page.waitForLoadState('load')
  if (view === 'now') {
    const isShown = page.waitForResponse(/periods=120/)
    await page.getByLabel('Period').selectOption('Last 2 hours')
    await isShown
    await page.getByRole('region', { name: 'Requests by minute' }).waitFor()
    await page.getByText('in the period before').waitFor()
  }
  if (view === 'caller') {
    await page.getByText('default (token)').waitFor()
    await page.getByText('No changes to this caller.').waitFor()
  }
  // Rules are read while requests arrive.
  for (let at = 0; at < 3 && view === 'rules'; at++) await call('GET', '/things', 'Bearer another-caller')
  if (view === 'rules') await page.getByText('Version 2 is active.').waitFor()
  if (view === 'rules') await page.getByText('Valid;').waitFor()
  await page.screenshot({ path: join(FOLDER, `${view}-${kind}.png`), fullPage: true, animations: 'disabled' })
  await context.close()
}

async function call(method: string, path: string, token: string): Promise<void> {
  await fetch(new URL(path, url), { method, headers: { Authorization: token } })
}

async function changeRules(path: string, body: object): Promise<void> {
  const headers = { Authorization: `Bearer ${ADMIN_TOKEN}`, 'Content-Type': 'application/json' }
  const response = await fetch(new URL(`/_sluice/admin${path}`, url), {
    ...{ method: 'POST', headers },
    body: JSON.stringify(body),
  })
  if (!response.ok) throw new Error(await response.text())
}

/** A day's rise and fall within hours, a language model that some ask, and a wave of guesses at passwords. */
async function countPast(counters: StatisticsStore): Promise<void> {
  const lastMs = Math.floor(Date.now() / MINUTE_MS) * MINUTE_MS
  const minutes = Array.from({ length: MINUTES + MINUTES_AHEAD }, (_, at) =>
    createPast(lastMs - (MINUTES - at) * MINUTE_MS, at),
  )
  await counters.add({ source: 'screenshots', number: 1, minutes })
}

function createPast(startMs: number, at: number): Period {
  const admitted = Math.round(2_400 + 900 * Math.sin(at / 19) + 130 * Math.sin(at * 2.3))
  const isAttacked = at >= 190 && at < 208
  const guesses = isAttacked ? 500 + 60 * (at % 5) : 4
  const answers = Math.round(admitted / 40)
  const tooLong = at % 4
  const limited = Math.round(40 + 25 * Math.sin(at / 7) ** 2) + guesses + tooLong
  const counts = {
    [COUNT_NAMES.requests.admitted]: admitted,
    [COUNT_NAMES.requests.limited]: limited,
    [COUNT_NAMES.requests.blocked]: 11,
    [COUNT_NAMES.policy('default', 'admitted', EVERYWHERE)]: admitted,
    [COUNT_NAMES.policy('default', 'limited', EVERYWHERE)]: limited - guesses - tooLong,
    [COUNT_NAMES.policy('default', 'refused_by_another', EVERYWHERE)]: guesses + tooLong,
    [COUNT_NAMES.policy('login', 'admitted', 'POST /login')]: 30,
    [COUNT_NAMES.policy('login', 'limited', 'POST /login')]: guesses,
    [COUNT_NAMES.policy('tokens', 'admitted', 'POST /v1/*')]: answers,
    [COUNT_NAMES.policy('tokens', 'limited', 'POST /v1/*')]: tooLong,
    [COUNT_NAMES.units('tokens')]: answers * 830 + at,
    [COUNT_NAMES.limit('login-1m')]: guesses,
    [COUNT_NAMES.limit('tokens-1m')]: tooLong,
    [COUNT_NAMES.limit('default-1m')]: limited - guesses - tooLong,
    [COUNT_NAMES.storeCalls]: admitted,
    [COUNT_NAMES.latency(4)]: Math.round(admitted * 0.9),
    [COUNT_NAMES.latency(9)]: Math.round(admitted * 0.1),
    [COUNT_NAMES.avoided.refusalCache]: limited,
  }
  const items = [
    { name: `login:${digest(['ip', '198.51.100.7'])}`, count: guesses, over: 0 },
    { name: `default:${digest(['token', 'the-busiest-caller'])}`, count: limited - guesses - tooLong, over: 0 },
  ]
  const recent = new RecentRefusals()
  const guess = { status: 429, outcome: 'limited', method: 'POST', rule: null, country: 'DE' }
  const [guesser, busiest] = [digest(['ip', '198.51.100.7']), digest(['token', 'the-busiest-caller'])]
  recent.add(startMs + 8_000, { ...guess, route: 'POST /login', policy: 'login', digest: guesser })
  recent.add(startMs + 21_000, { ...guess, method: 'GET', route: '*', policy: 'default', digest: busiest })
  const blocked = { ...guess, status: 403, outcome: 'blocked', method: 'GET', policy: null, digest: null }
  recent.add(startMs + 43_000, { ...blocked, route: '*', rule: SCRAPERS, country: 'NL' })
  return {
    startMs,
    counts: new Map(Object.entries(counts)),
    sketches: new Map([
      [REFUSED_CALLERS, { items: items.filter(({ count }) => count > 0), floor: 0 }],
      [RECENT, recent.toSketch()],
      [REFUSING_RULES, { items: [{ name: encodeURIComponent(SCRAPERS), count: 11, over: 0 }], floor: 0 }],
    ]),
  }
}
