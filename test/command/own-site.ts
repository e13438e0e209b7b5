import { randomUUID } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, inject } from 'vitest'
import { PLANTED } from '../setup/secret-watch.ts'
import type { DirectGateway } from '../support/direct-gateway.ts'
import { startGateway } from '../support/gateway.ts'
import { connectRedis, type RedisClient } from '../support/redis-client.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { type Outcome, type RunOptions, runInside } from './run-command.ts'

export interface OwnSite {
  readonly keyPrefix: string
  /** What the gateway and the command have in common. */
  readonly variables: Readonly<Record<string, unknown>>
  readonly upstream: Upstream
  readonly gateway: DirectGateway
  /** The database of both. */
  readonly redis: RedisClient
  /** The folder of the project, where the command finds all of this. */
  readonly cwd: string
  /** Runs the command there. */
  run(args: readonly string[], input?: string, env?: RunOptions['env']): Promise<Outcome>
}

/**
 * A gateway that a file of tests has for itself, and the project that it was deployed from.
 * @param bindings what the gateway alone knows
 */
export function ownSite(
  own: Readonly<Record<string, unknown>>,
  bindings: Readonly<Record<string, unknown>> = {},
): OwnSite {
  const keyPrefix = `command-${randomUUID()}`
  const variables = { ...own, KEY_PREFIX: keyPrefix }
  const IDENTITY_SECRET = `${PLANTED}-of-identities`
  const parts = {} as { upstream: Upstream; gateway: DirectGateway; redis: RedisClient; cwd: string }
  beforeAll(async () => {
    parts.redis = await connectRedis(inject('redisPort'))
    parts.upstream = await startUpstream((_request, response) => response.end())
    parts.gateway = await startGateway({ ...variables, IDENTITY_SECRET, UPSTREAM_URL: parts.upstream.url, ...bindings })
    parts.cwd = await mkdtemp(join(tmpdir(), 'sluice-command-'))
    const secrets = {
      IDENTITY_SECRET,
      UPSTASH_REDIS_REST_URL: inject('redisRestUrl'),
      UPSTASH_REDIS_REST_TOKEN: inject('redisRestToken'),
    }
    const vars = { UPSTREAM_URL: 'https://api.acme.test', ...variables }
    await writeFile(join(parts.cwd, 'wrangler.json'), JSON.stringify({ vars }))
    const lines = Object.entries(secrets).map(([name, value]) => `${name}=${value}\n`)
    await writeFile(join(parts.cwd, '.dev.vars'), lines.join(''))
  })
  afterAll(async () => {
    await Promise.all([parts.gateway.stop(), parts.upstream.stop(), rm(parts.cwd, { recursive: true })])
    await parts.redis.del(`${keyPrefix}:rules`)
    parts.redis.destroy()
  })
  const run: OwnSite['run'] = (args, input, env) =>
    runInside(args, { cwd: parts.cwd, ...(input !== undefined && { input }), ...(env && { env }) })
  return Object.assign(parts, { keyPrefix, variables, run })
}
