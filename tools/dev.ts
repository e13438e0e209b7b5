import { randomBytes } from 'node:crypto'
import { parseArgs } from 'node:util'
import { loadConfig, OBJECTS, type StoreKind } from '../src/config/load-config.ts'
import { examples } from './dev-examples.ts'
import { readVariables } from './dev-variables.ts'
import { startEchoUpstream } from './echo-upstream.ts'
import { findRedisServer } from './find-redis-server.ts'
import { freePort } from './free-port.ts'
import { startRedisServer } from './redis-server.ts'
import { startRestFront } from './rest-front.ts'

async function start(): Promise<void> {
  const options = readOptions()
  const port = await portOf(options)
  const variables = readVariables({ shell: process.env })
  if (options.store !== undefined) variables.STORE = options.store
  const { STORE: asked, STORE_SHADOW: askedBeside } = variables
  const isNamed = variables.UPSTASH_REDIS_REST_URL !== undefined || variables.UPSTASH_REDIS_REST_TOKEN !== undefined
  // Whoever moves from one store to the other has both.
  const mustBeRedis = asked === 'redis' || askedBeside !== undefined
  const startsRedis = !isNamed && (mustBeRedis || asked === undefined)
  // Checked before anything starts; an upstream or a Redis that is missing here is started below.
  const present = { UPSTREAM_URL: 'http://127.0.0.1', [OBJECTS]: { idFromName() {} } }
  const started = { UPSTASH_REDIS_REST_URL: 'http://127.0.0.1', UPSTASH_REDIS_REST_TOKEN: 'dev' }
  loadConfig({ ...present, ...(startsRedis && started), ...variables })

  let upstream = `${variables.UPSTREAM_URL}`
  if (variables.UPSTREAM_URL === undefined) {
    const echo = await startEchoUpstream()
    variables.UPSTREAM_URL = echo.url
    upstream = `${echo.url}  answers each request with the request itself`
  }

  const redis = startsRedis ? await startRedis(mustBeRedis) : undefined
  if (redis) {
    variables.UPSTASH_REDIS_REST_URL = redis.url
    variables.UPSTASH_REDIS_REST_TOKEN = redis.token
  }
  const config = loadConfig({ ...present, ...variables })
  const stores: Readonly<Record<StoreKind, string>> = {
    redis: redis
      ? `${redis.url}  Upstash's REST protocol, token "${redis.token}", over redis-server on port ${redis.port}`
      : `${config.redis?.url}`,
    'durable-object': 'Durable Objects of this machine: counts are lost when dev ends',
    memory: 'in memory: counts are lost when the Worker reloads',
  }

  // Each run has another one, which nobody can know from anywhere but the line printed below.
  const ownToken = config.admin ? undefined : randomBytes(24).toString('base64url')
  if (ownToken !== undefined) variables.ADMIN_TOKEN = ownToken

  // Wrangler takes a second or more to load: what is wrong without it is said before.
  const { startDevWorker } = await import('./dev-worker.ts')
  const url = await startDevWorker({ port, variables })
  const tiers = config.policies.flatMap((policy) => policy.tiers.map(({ name, limit }) => `${limit} per ${name}`))
  const operators = operatorsAt(url, config.admin?.host)
  // Without a database of its own to look at, the gateway can be asked.
  const asking = `npm run sluice -- usage a --gateway ${new URL(operators).origin}`
  const command =
    redis && config.store === 'redis'
      ? `npm run sluice -- top --redis redis://127.0.0.1:${redis.port}`
      : `${ownToken === undefined ? '' : `ADMIN_TOKEN=${ownToken} `}${asking}`
  const lines = [
    ['Sluice', url],
    ['upstream', upstream],
    ['store', stores[config.store]],
    ...(config.storeShadow ? [['beside', stores[config.storeShadow]]] : []),
    ['tiers', tiers.join(', ')],
    ['operators', `${operators}  token ${ownToken ?? 'as in ADMIN_TOKEN'}`],
    ['command', command],
    [],
    ...(await examples(url, config)).map(({ shows, command }) => [shows, command]),
    [],
    ['Ctrl-C stops everything. A change of a source reloads the Worker.'],
  ].map(([label = '', text = '']) => `${label.padEnd(10)}${text}`.trimEnd())
  console.log(`\n${lines.join('\n')}\n`)
}

/** The dashboard's address. @param host the only one that serves it, if there is one */
function operatorsAt(url: string, host: string | undefined): string {
  return new URL('/_sluice/', host === undefined ? url : `http://${host}`).href
}

/** Undefined if there is no Redis and none can be installed. @throws Error instead, if it must be Redis */
async function startRedis(isRequired: boolean): Promise<{ url: string; token: string; port: number } | undefined> {
  let binary: string
  try {
    binary = await findRedisServer()
  } catch (error) {
    if (isRequired) throw error
    console.warn(`${(error as Error).message}\nUntil then, Durable Objects of this machine take its place.`)
    return undefined
  }
  const redis = await startRedisServer({ binary })
  // Its guard would end it just after this process; this is just before.
  process.once('exit', redis.stop)
  redis.exited.then((log) => fail(new Error(`redis-server ended unexpectedly:\n${log}`)))
  const front = await startRestFront({ redisPort: redis.port, token: 'dev' })
  return { url: front.url, token: front.token, port: redis.port }
}

interface Options {
  readonly port?: string
  readonly store?: string
}

/** @throws Error if there is another option */
function readOptions(): Options {
  return parseArgs({ options: { port: { type: 'string' }, store: { type: 'string' } } }).values
}

/**
 * The port that `--port` names, else PORT; 0 stands for any.
 * @throws Error if it is not a port, or if that port is taken on 127.0.0.1.
 */
async function portOf(options: Options): Promise<number> {
  const name = options.port === undefined ? 'PORT' : '--port'
  const text = options.port ?? process.env.PORT ?? '8787'
  const port = Number(text)
  if (text === '' || !Number.isInteger(port) || port < 0 || port > 65_535) {
    throw new Error(`${name}: expected 0 to 65535, got "${text}"`)
  }
  await freePort(port).catch((error: NodeJS.ErrnoException) => {
    throw new Error(`${name}: expected one that is free, got ${port} (${error.code})`)
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
