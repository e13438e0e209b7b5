/** The gRPC server: the rate limit service of Envoy, and the health of gRPC. */
import {
  type Metadata,
  Server,
  type ServerUnaryCall,
  type ServerWritableStream,
  type sendUnaryData,
  status,
} from '@grpc/grpc-js'
import { StoreError } from '../core/model/store.ts'
import type { Log } from '../core/runtime/log.ts'
import { createRequestContext } from '../http/response/exchange.ts'
import { createRequestDecider, type RequestDeciderOptions } from './decide-request.ts'
import { type HitCount, HitCounts } from './hit-counts.ts'
import { RequestError } from './match-descriptors.ts'
import {
  defineService,
  HEALTH_SERVICE,
  type HealthCheckRequest,
  type HealthCheckResponse,
  RATE_LIMIT_SERVICE,
  type RateLimitRequest,
  type RateLimitResponse,
} from './messages.ts'
import { readCredentials, type TlsFiles } from './tls.ts'
import type { WatchedConfig } from './watch-config.ts'

export interface RateLimitServer {
  readonly port: number
  readonly isDraining: boolean
  /** Decides what was asked elsewhere than over gRPC. @throws {RequestError} */
  decide(request: RateLimitRequest): Promise<RateLimitResponse>
  listCounts(): readonly HitCount[]
  /** Tells clients to go elsewhere, and answers what it has begun to; what takes longer is cut off. */
  drain(timeoutMs: number): Promise<void>
}

export interface RateLimitServerOptions extends Omit<RequestDeciderOptions, 'counts'> {
  readonly host: string
  readonly port: number
  readonly watched: WatchedConfig
  /** Without it, clients talk in the clear. */
  readonly tls?: TlsFiles | undefined
  /** A connection is closed after this, so that its client finds servers that were added since. */
  readonly maxConnectionAgeMs: number
  /** Time in which a connection that is being closed still answers what it has begun. */
  readonly maxConnectionAgeGraceMs: number
  readonly waitUntil: (work: Promise<unknown>) => void
  readonly log: Log
}

const RATE_LIMIT = 'envoy.service.ratelimit.v3.RateLimitService'
/** The last one is how the reference server names itself. */
const HEALTHY = ['', RATE_LIMIT, 'ratelimit']

/** @throws {Error} if it cannot listen there, or cannot use its certificates */
export async function startRateLimitServer(options: RateLimitServerOptions): Promise<RateLimitServer> {
  const { host, port, watched, waitUntil, log, tls, note, maxConnectionAgeMs, maxConnectionAgeGraceMs } = options
  const credentials = readCredentials(tls, note)
  const counts = new HitCounts()
  const decideRequest = createRequestDecider({ ...options, counts })
  const server = new Server({
    'grpc.max_connection_age_ms': maxConnectionAgeMs,
    'grpc.max_connection_age_grace_ms': maxConnectionAgeGraceMs,
  })
  const watchers = new Set<ServerWritableStream<HealthCheckRequest, HealthCheckResponse>>()
  let isDraining = false

  async function answerRequest(
    call: ServerUnaryCall<RateLimitRequest, RateLimitResponse>,
    answer: sendUnaryData<RateLimitResponse>,
  ) {
    // Its client has gone: nothing must be charged for it.
    if (call.cancelled || Number(call.getDeadline()) <= Date.now()) {
      return answer({ code: status.DEADLINE_EXCEEDED, details: 'the deadline is over' })
    }
    try {
      answer(null, await decide(call.request, () => call.cancelled))
    } catch (error) {
      answer(toStatus(error, log))
    }
  }

  async function decide(request: RateLimitRequest, isClientGone = () => false): Promise<RateLimitResponse> {
    const context = { ...createRequestContext(waitUntil, log), isClientGone }
    try {
      return await decideRequest(request, watched.domains, context)
    } finally {
      context.deadlines.end()
    }
  }

  const readHealth = (): HealthCheckResponse => ({ status: isDraining ? 'NOT_SERVING' : 'SERVING' })
  server.addService(defineService(RATE_LIMIT_SERVICE, RATE_LIMIT), { ShouldRateLimit: answerRequest })
  server.addService(defineService(HEALTH_SERVICE, 'grpc.health.v1.Health'), {
    Check(call: ServerUnaryCall<HealthCheckRequest, HealthCheckResponse>, answer: sendUnaryData<HealthCheckResponse>) {
      if (HEALTHY.includes(call.request.service)) answer(null, readHealth())
      else answer({ code: status.NOT_FOUND, details: 'unknown service' })
    },
    Watch(call: ServerWritableStream<HealthCheckRequest, HealthCheckResponse>) {
      call.write(HEALTHY.includes(call.request.service) ? readHealth() : { status: 'SERVICE_UNKNOWN' })
      watchers.add(call)
      call.on('cancelled', () => {
        watchers.delete(call)
        call.end()
      })
    },
  })
  const shown = host.includes(':') ? `[${host}]` : host
  const bound = await new Promise<number>((resolve, reject) => {
    server.bindAsync(`${shown}:${port}`, credentials, (error, bound) => (error ? reject(error) : resolve(bound)))
  })
  return {
    port: bound,
    get isDraining() {
      return isDraining
    },
    decide: (request) => decide(request),
    listCounts: () => counts.list(),
    async drain(timeoutMs) {
      isDraining = true
      for (const call of watchers) {
        if (HEALTHY.includes(call.request.service)) call.write(readHealth())
        call.end()
      }
      const late = setTimeout(() => server.forceShutdown(), timeoutMs)
      await new Promise<void>((resolve) => server.tryShutdown(() => resolve()))
      clearTimeout(late)
    },
  }
}

/** Tells a client of an error. */
function toStatus(error: unknown, log: Log): { code: status; details: string; metadata?: Metadata } {
  // As the reference server answers.
  if (error instanceof RequestError) return { code: status.UNKNOWN, details: error.message }
  log('error', { event: 'unexpected_error', message: error instanceof Error ? error.message : 'failed' })
  return error instanceof StoreError
    ? { code: status.UNAVAILABLE, details: 'the store gives no answer' }
    : { code: status.INTERNAL, details: 'internal error' }
}
