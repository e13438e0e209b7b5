/** Starts what a run of measurements needs: an API, a Redis with REST fronts, and bundles of Workers. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Bundle, type BundleOptions, buildBundle } from '../test/support/build-bundle.ts'
import { type DirectGateway, type DirectGatewayOptions, startDirectGateway } from '../test/support/direct-gateway.ts'
import { connectRedis, type RedisClient } from '../test/support/redis-client.ts'
import { startRedisServer } from '../tools/redis-server.ts'
import { type Service, startApi, startFront } from './services.ts'

export const TOKEN = 'bench-token'

/** A Worker, relative to the root, and what it is bound to besides its upstream and its Redis. */
export interface GatewayWorker {
  readonly source: string
  readonly bindings: Readonly<Record<string, string>>
}

export interface GatewayOptions extends Omit<DirectGatewayOptions, 'bundle' | 'bindings'> {
  /** The answers of Redis come later by this; default: 0. */
  readonly latencyMs?: number
  readonly build?: Pick<BundleOptions, 'minify'>
}

export interface Site extends AsyncDisposable {
  readonly redis: RedisClient
  readonly redisPort: number
  readonly upstream: Service
  /** Finds the REST front whose answers come so much later. */
  findFront(latencyMs: number): Promise<Service>
  /** The variables by which a gateway finds its API and its Redis. */
  findBindings(latencyMs?: number): Promise<Readonly<Record<string, string>>>
  startGateway(worker: GatewayWorker, options?: GatewayOptions): Promise<DirectGateway & AsyncDisposable>
}

export async function openSite(): Promise<Site> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
  const server = await startRedisServer()
  const redis = await connectRedis(server.port)
  const upstream = await startApi()
  const fronts = new Map<number, Promise<Service>>()
  const bundles = new Map<string, Promise<Bundle>>()

  function findFront(latencyMs: number): Promise<Service> {
    const front = fronts.get(latencyMs) ?? startFront(server.port, TOKEN, latencyMs)
    fronts.set(latencyMs, front)
    return front
  }

  async function findBindings(latencyMs = 0) {
    const { url } = await findFront(latencyMs)
    return { UPSTREAM_URL: upstream.url, UPSTASH_REDIS_REST_URL: url, UPSTASH_REDIS_REST_TOKEN: TOKEN }
  }

  function findBundle(source: string, build: GatewayOptions['build'] = {}): Promise<Bundle> {
    const id = [source, build.minify].join()
    const bundle = bundles.get(id) ?? buildBundle({ source, into: folder, ...build })
    bundles.set(id, bundle)
    return bundle
  }

  return {
    redis,
    redisPort: server.port,
    upstream,
    findFront,
    findBindings,
    async startGateway({ source, bindings: own }, { latencyMs, build, ...options } = {}) {
      const bindings = { ...(await findBindings(latencyMs)), ...own }
      const gateway = await startDirectGateway({ bundle: await findBundle(source, build), bindings, ...options })
      return { ...gateway, [Symbol.asyncDispose]: gateway.stop }
    },
    async [Symbol.asyncDispose]() {
      await redis.close()
      await Promise.all([upstream.stop(), ...[...fronts.values()].map(async (front) => (await front).stop())])
      await server.stop()
      await rm(folder, { recursive: true })
    },
  }
}
