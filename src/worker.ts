import { createApp } from './gateway/app.ts'
import { ConfigError } from './config/config-error.ts'
import { type Environment, isFetcher, loadConfig } from './config/load-config.ts'
import { problemResponse } from './http/problem.ts'
import { consoleLog } from './decide/log.ts'
import { MemoryStore } from './store/memory/memory-store.ts'
import { RedisStore } from './store/redis/redis-store.ts'

interface Handler {
  fetch(request: Request, env: Environment, ctx: ExecutionContext): Response | Promise<Response>
}

let handler: Handler | undefined

export default {
  fetch(request: Request, env: Environment, ctx: ExecutionContext) {
    // Once an isolate: an environment does not change under it.
    handler ??= start(env)
    return handler.fetch(request, env, ctx)
  },
}

function start(env: Environment): Handler {
  try {
    return createHandler(env)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    const { variable, message } = error
    consoleLog('error', { event: 'misconfigured', message })
    return {
      // The value is for the log alone: the public has no business with it.
      fetch: () =>
        problemResponse({
          status: 500,
          title: 'Misconfigured',
          detail: `${variable} is not as expected; the log says more.`,
        }),
    }
  }
}

function createHandler(env: Environment): Handler {
  const config = loadConfig(env)
  const upstream = isFetcher(env.UPSTREAM) ? env.UPSTREAM : globalThis
  const now = () => Date.now()
  const algorithms = new Set(config.policies.map(({ algorithm }) => algorithm))
  if (!config.redis) {
    consoleLog('warn', { event: 'in_memory_store', message: 'no UPSTASH_REDIS_REST_URL: limits hold per isolate only' })
  }
  const store = config.redis
    ? new RedisStore({ ...config.redis, algorithms, timeoutMs: config.storeTimeoutMs })
    : new MemoryStore(now)
  return createApp({ config, store, fetch: (request, init) => upstream.fetch(request, init), now, log: consoleLog })
}
