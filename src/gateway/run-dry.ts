/** Has V8 compile what each request runs before there is one. */
import type { RedisClient } from '../core/store/redis/client.ts'
import type { Host, Setting } from './compose/setting.ts'
import { composeGateway } from './create-gateway.ts'

/** The context of a request in runtimes that give none. */
export const CONTEXT = { waitUntil() {}, passThroughOnException() {}, props: {} }

/** Admits every request: see `lua/decide.lua` for the arguments and the reply. */
async function admit(_script: string, _keys: string[], args: (string | number)[]): Promise<number[]> {
  const reply = [1, 1]
  for (let at = 3; at < args.length; ) {
    const [charge, size] = [String(args[at]), Number(args[at + 1])]
    for (let limit = 1; limit < size; limit += 2) reply.push(0, 1_000, 0)
    if (charge.includes(' penalty ')) reply.push(0)
    at += 2 + size
  }
  return reply
}

const CLIENT: RedisClient = {
  ...{ evalsha: admit, eval: admit, zrem: async () => 0, del: async () => 0, ping: async () => 'PONG' },
  serverWords: () => undefined,
}

/** Where Workers start, they can neither call anybody, set a timer nor draw; a body of text is refused as well. */
const DRY: Host = {
  connect: () => CLIENT,
  upstream: { fetch: () => new Response(null) },
  timers: {
    ...{ setTimeout: () => 0, clearTimeout() {}, setInterval: () => 0, clearInterval() {} },
  } as unknown as NonNullable<Host['timers']>,
  drawNumber: () => 1,
}

/**
 * Sends a request through a gateway of the same configuration, which is then thrown away. Nothing of it is seen: it has no
 * log, no statistics and no rules. What it fails at concerns nobody but a test.
 */
export async function runDry({ env, config, clocks }: Setting): Promise<Response> {
  const statistics = { ...config.statistics, isOn: false, logShare: 0 }
  const own = { ...config, statistics, rules: undefined, storeMirror: undefined, admin: undefined, metrics: undefined }
  const setting = { env: { ...env, ANALYTICS: undefined }, config: own, host: DRY, clocks, log() {} }
  const { app } = await composeGateway(setting)
  const headers = { Authorization: 'Bearer dry-run', 'CF-Connecting-IP': '192.0.2.1' }
  return app.fetch(new Request('https://dry-run.invalid/', { headers }), env, CONTEXT)
}
