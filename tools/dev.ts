/** Starts everything that a gateway needs, and the gateway: `npm run dev`. */
import { randomBytes } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import type { RequestPolicy } from '../src/core/model/policy.ts'
import { ALL_READERS } from '../src/http/config/all-problems.ts'
import { loadConfig } from '../src/http/config/load-config.ts'
import { STORE_KINDS, type StoreKind } from '../src/http/config/store-kinds.ts'
import { SECRETS } from '../src/http/config/variables.ts'
import { createExamples } from './dev-examples.ts'
import { readVariables } from './dev-variables.ts'
import { ECHO, startEchoUpstream } from './echo-upstream.ts'
import { findRedisServer } from './find-redis-server.ts'
import { assertFree } from './free-port.ts'
import { startRedisServer } from './redis-server.ts'
import { startRestFront } from './rest-front.ts'

const HELP = `npm run dev [-- options]

Starts Redis, a REST front that speaks Upstash's protocol, an API that repeats each request, and the Worker.
Variables come from the shell, .dev.vars and wrangler.toml, in this order; RULES and STATISTICS are on by default.

  --port <port>      port of the Worker, 0 for any; default: PORT, else 8787
  --store <store>    redis, durable-object or memory; default: STORE, else Redis if there is one
  --away <seconds>   for so long Redis stays away once it has ended, to try what happens then; default: 10
  --help             show this`

async function start(): Promise<void> {
  const options = readOptions()
  if (options.help) return console.log(HELP)
  const awayMs = readAwayMs(options)
  const port = await readPort(options)
  const variables = readVariables({ shell: process.env })
  if (options.store !== undefined) variables.STORE = options.store
  const { STORE: store, STORE_MIRROR: mirror } = variables
  const isNamed = STORE_KINDS.redis.variables.flat().some((name) => variables[name] !== undefined)
  // A move from one store to the other needs both.
  const mustBeRedis = store === 'redis' || mirror !== undefined
  const startsRedis = !isNamed && (mustBeRedis || store === undefined)
  // Checked before anything starts; an upstream or a Redis that is missing here is started below.
  const present = { UPSTREAM_URL: 'http://127.0.0.1', LIMITS: { idFromName() {} } }
  const started = { UPSTASH_REDIS_REST_URL: 'http://127.0.0.1', UPSTASH_REDIS_REST_TOKEN: 'dev' }
  loadConfig({ ...present, ...(startsRedis && started), ...variables }, ALL_READERS)

  let upstream = `${variables.UPSTREAM_URL}`
  if (variables.UPSTREAM_URL === undefined) {
    const echo = await startEchoUpstream()
    variables.UPSTREAM_URL = echo.url
    upstream = `${echo.url}  ${ECHO}; not UPSTREAM_URL of wrangler.toml: \`UPSTREAM_URL=https://… npm run dev\` takes that`
  }
  // So that the dashboard shows, and changes, something from the first request.
  for (const name of ['STATISTICS', 'RULES'] as const) variables[name] ??= 'on'

  const redis = startsRedis ? await startRedis(mustBeRedis, awayMs) : undefined
  if (redis) {
    variables.UPSTASH_REDIS_REST_URL = redis.url
    variables.UPSTASH_REDIS_REST_TOKEN = redis.token
  }
  // Each run has another one, which only the line printed below shows.
  const ownToken = variables.ADMIN_TOKEN ? undefined : randomBytes(24).toString('base64url')
  if (ownToken !== undefined) variables.ADMIN_TOKEN = ownToken
  const config = loadConfig({ ...present, ...variables }, ALL_READERS)
  const stores: Readonly<Record<StoreKind, string>> = {
    redis: redis
      ? `${redis.url}  Upstash's REST protocol, token "${redis.token}", over redis-server on port ${redis.port}`
      : `${config.redis?.url}`,
    'durable-object': 'Durable Objects of this machine: counts are lost when dev ends',
    memory: 'in memory: counts are lost when the Worker reloads',
  }

  // Wrangler takes a second or more to load: what is wrong without it is said before.
  const { startDevWorker } = await import('./dev-worker.ts')
  const url = await startDevWorker({ port, variables })
  const limits = config.policies.filter((policy) => policy.limits.length > 0).map(describeLimits)
  // If operators have a host of their own, no other serves the dashboard.
  const host = config.admin?.host
  const operators = new URL('/_sluice/', host === undefined ? url : `http://${host}`).href
  // If there is no database to look at, the gateway answers.
  const viaGateway = `npm run sluice -- usage a --gateway ${new URL(operators).origin}`
  const command =
    redis && config.store === 'redis'
      ? `${formatShell(variables)}npm run sluice -- top --redis redis://127.0.0.1:${redis.port}`
      : `${ownToken === undefined ? '' : `ADMIN_TOKEN=${ownToken} `}${viaGateway}`
  const lines = [
    ['Sluice', url],
    ['upstream', upstream],
    ['store', stores[config.store]],
    ...(config.storeMirror ? [['mirror', stores[config.storeMirror]]] : []),
    ['limits', `${limits.join('; ')}${variables.MODE === 'shadow' ? ' (MODE is shadow: nothing is refused)' : ''}`],
    ['operators', `${operators}  token ${ownToken ?? 'as in ADMIN_TOKEN'}`],
    ['command', command],
    [],
    ...(await createExamples(url, config)).map(({ shows, command }) => [shows, command]),
    [],
    ['Ctrl-C stops everything. A change of a source reloads the Worker; one of the configuration needs a new start.'],
  ].map(([label = '', text = '']) => `${label.padEnd(10)}${text}`.trimEnd())
  console.log(`\n${lines.join('\n')}\n`)
}

/** What another shell does not know of the variables, and the command goes by. */
function formatShell(variables: Readonly<Record<string, unknown>>): string {
  const own = Object.keys(process.env).filter((name) => variables[name] === process.env[name] && !SECRETS.has(name))
  const values = { ...Object.fromEntries(own.map((name) => [name, variables[name]])), RULES: variables.RULES }
  return Object.entries(values)
    .map(
      ([name, value]) =>
        `${name}=${/^[\w./:-]+$/.test(`${value}`) ? value : `'${`${value}`.replaceAll("'", "'\\''")}'`} `,
    )
    .join('')
}

/** A policy's limits, such as "login: 5 per 1m, 20 per 1h". */
function describeLimits({ name, limits, plans }: RequestPolicy): string {
  // Slots have no window.
  const describe = (ofPlan: RequestPolicy['limits']) =>
    ofPlan
      .map((limit) => `${limit.limit} ${limit.name === name ? 'at once' : `per ${limit.name.slice(name.length + 1)}`}`)
      .join(', ')
  const all = plans
    ? Object.entries(plans.limits).map(([plan, ofPlan]) => `${plan} ${describe(ofPlan.limits)}`)
    : [describe(limits)]
  return `${name}: ${all.join(', ')}`
}

/** Undefined if there is no Redis and none can be installed. @throws Error instead, if it must be Redis */
async function startRedis(
  isRequired: boolean,
  awayMs: number,
): Promise<{ url: string; token: string; port: number } | undefined> {
  let binary: string
  try {
    binary = await findRedisServer()
  } catch (error) {
    if (isRequired) throw error
    console.warn(`${(error as Error).message}\nUntil then, Durable Objects of this machine take its place.`)
    return undefined
  }
  let redis = await startRedisServer({ binary })
  const { port } = redis
  // Its guard would end it just after this process; this is just before.
  process.once('exit', () => redis.stop())
  const front = await startRestFront({ redisPort: port, token: 'dev' })
  keepRunning().catch(fail)
  return { url: front.url, token: front.token, port }

  /** Starts it again, some time after it has ended. */
  async function keepRunning(): Promise<never> {
    for (;;) {
      await redis.exited
      console.error(`redis-server has ended. Redis is away for ${awayMs / 1_000} s, and ON_STORE_ERROR decides.`)
      await setTimeout(awayMs)
      redis = await startRedisServer({ binary, port })
      console.log(`redis-server runs again on port ${port}, and all counts begin anew.`)
    }
  }
}

type Options = ReturnType<typeof readOptions>

/** @throws Error if there is another option */
function readOptions() {
  const value = { type: 'string' } as const
  return parseArgs({ options: { port: value, store: value, away: value, help: { type: 'boolean', short: 'h' } } })
    .values
}

/** @throws Error if it is no number of seconds */
function readAwayMs({ away = '10' }: Options): number {
  if (/^\d{1,5}(?:\.\d+)?$/.test(away)) return Number(away) * 1_000
  throw new Error(`--away: expected seconds, got "${away}"`)
}

/**
 * The port that `--port` names, else PORT; 0 stands for any.
 * @throws Error if it is not a port, or if that port is taken on 127.0.0.1.
 */
async function readPort(options: Options): Promise<number> {
  const name = options.port === undefined && process.env.PORT !== undefined ? 'PORT' : '--port'
  const text = options.port ?? process.env.PORT ?? '8787'
  const port = Number(text)
  if (text === '' || !Number.isInteger(port) || port < 0 || port > 65_535) {
    throw new Error(`${name}: expected 0 to 65535, got "${text}"`)
  }
  await assertFree(port).catch((error: NodeJS.ErrnoException) => {
    throw new Error(
      `${name}: expected one that is free, got ${port} (${error.code}); another one: npm run dev -- --port ${port + 1}`,
    )
  })
  return port
}

function fail(error: Error): never {
  console.error(error.message)
  process.exit(1)
}

// All that was started is part of this process or ends with it.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, () => process.exit(0))
await start().catch(fail)
