/**
 * The messages of `envoy.service.ratelimit.v3`, `grpc.health.v1` and xDS, as far as they are read or sent: fields that are not
 * named here are skipped, as the encoding of protocol buffers wants it.
 */
import type { ServiceDefinition } from '@grpc/grpc-js'
import { fromJSON, type Options } from '@grpc/proto-loader'

/** Units of limits by the numbers that both sides send; a month has 30 days and a year 365, as the reference server has it. */
export const UNITS = {
  SECOND: { number: 1, windowMs: 1_000, limits: '1s' },
  MINUTE: { number: 2, windowMs: 60_000, limits: '1m' },
  HOUR: { number: 3, windowMs: 3_600_000, limits: '1h' },
  DAY: { number: 4, windowMs: 86_400_000, limits: '1d' },
  MONTH: { number: 5, windowMs: 2_592_000_000, limits: '30d' },
  YEAR: { number: 6, windowMs: 31_536_000_000, limits: '365d' },
  WEEK: { number: 7, windowMs: 604_800_000, limits: '1w' },
} as const

export type RateLimitUnit = keyof typeof UNITS

export const MAX_UINT32 = 2 ** 32 - 1

export interface Descriptor {
  readonly entries: readonly { readonly key: string; readonly value: string }[]
  readonly limit: { readonly requestsPerUnit: number; readonly unit: RateLimitUnit | 'UNKNOWN' | number } | null
  /** Replaces that of the request; 0 asks without a charge. */
  readonly hitsAddend: { readonly value: number } | null
  readonly isNegativeHits: boolean
}

export interface RateLimitRequest {
  readonly domain: string
  readonly descriptors: readonly Descriptor[]
  /** 0 if it was not sent, which means 1. */
  readonly hitsAddend: number
}

export type Code = 'OK' | 'OVER_LIMIT'

export interface DescriptorStatus {
  readonly code: Code
  readonly currentLimit?: {
    readonly name: string
    readonly requestsPerUnit: number
    readonly unit: RateLimitUnit | 'UNKNOWN'
  }
  readonly limitRemaining?: number
  readonly durationUntilReset?: { readonly seconds: number; readonly nanos: number }
}

export interface RateLimitResponse {
  readonly overallCode: Code
  readonly statuses: readonly DescriptorStatus[]
  readonly responseHeadersToAdd: readonly { readonly key: string; readonly value: string }[]
}

const units = { UNKNOWN: 0, ...Object.fromEntries(Object.entries(UNITS).map(([name, { number }]) => [name, number])) }

function createMessage(fields: Readonly<Record<string, readonly [number: number, type: string, rule?: 'repeated']>>) {
  const described = Object.entries(fields).map(([name, [id, type, rule]]) => [
    name,
    { id, type, ...(rule && { rule }) },
  ])
  return { fields: Object.fromEntries(described) }
}

function createPackage(name: string, nested: object): object {
  return name.split('.').reduceRight((inner, part) => ({ nested: { [part]: inner } }), { nested } as object)
}

/** `fromJSON` of `@grpc/proto-loader` reads it. */
export const RATE_LIMIT_SERVICE = createPackage('envoy.service.ratelimit.v3', {
  RateLimitService: {
    methods: { ShouldRateLimit: { requestType: 'RateLimitRequest', responseType: 'RateLimitResponse' } },
  },
  RateLimitRequest: createMessage({
    domain: [1, 'string'],
    descriptors: [2, 'Descriptor', 'repeated'],
    hitsAddend: [3, 'uint32'],
  }),
  Descriptor: createMessage({
    entries: [1, 'Entry', 'repeated'],
    limit: [2, 'Override'],
    hitsAddend: [3, 'Hits'],
    isNegativeHits: [4, 'bool'],
  }),
  Entry: createMessage({ key: [1, 'string'], value: [2, 'string'] }),
  Override: createMessage({ requestsPerUnit: [1, 'uint32'], unit: [2, 'Unit'] }),
  Hits: createMessage({ value: [1, 'uint64'] }),
  Unit: { values: units },
  Code: { values: { UNKNOWN: 0, OK: 1, OVER_LIMIT: 2 } },
  RateLimitResponse: createMessage({
    overallCode: [1, 'Code'],
    statuses: [2, 'DescriptorStatus', 'repeated'],
    responseHeadersToAdd: [3, 'Header', 'repeated'],
  }),
  DescriptorStatus: createMessage({
    code: [1, 'Code'],
    currentLimit: [2, 'RateLimit'],
    limitRemaining: [3, 'uint32'],
    durationUntilReset: [4, 'Duration'],
  }),
  RateLimit: createMessage({ requestsPerUnit: [1, 'uint32'], unit: [2, 'Unit'], name: [3, 'string'] }),
  Duration: createMessage({ seconds: [1, 'int64'], nanos: [2, 'int32'] }),
  Header: createMessage({ key: [1, 'string'], value: [2, 'string'] }),
})

export interface HealthCheckRequest {
  readonly service: string
}

export interface HealthCheckResponse {
  readonly status: 'SERVING' | 'NOT_SERVING' | 'SERVICE_UNKNOWN'
}

export const HEALTH_SERVICE = createPackage('grpc.health.v1', {
  Health: {
    methods: {
      Check: { requestType: 'HealthCheckRequest', responseType: 'HealthCheckResponse' },
      Watch: { requestType: 'HealthCheckRequest', responseType: 'HealthCheckResponse', responseStream: true },
    },
  },
  HealthCheckRequest: createMessage({ service: [1, 'string'] }),
  HealthCheckResponse: createMessage({ status: [1, 'ServingStatus'] }),
  ServingStatus: { values: { UNKNOWN: 0, SERVING: 1, NOT_SERVING: 2, SERVICE_UNKNOWN: 3 } },
})

export const DISCOVERY_SERVICE = createPackage('envoy.service.discovery.v3', {
  AggregatedDiscoveryService: {
    methods: {
      StreamAggregatedResources: {
        ...{ requestType: 'DiscoveryRequest', requestStream: true },
        ...{ responseType: 'DiscoveryResponse', responseStream: true },
      },
    },
  },
  DiscoveryRequest: createMessage({
    versionInfo: [1, 'string'],
    node: [2, 'Node'],
    typeUrl: [4, 'string'],
    responseNonce: [5, 'string'],
    errorDetail: [6, 'Status'],
  }),
  Node: createMessage({ id: [1, 'string'] }),
  Status: createMessage({ code: [1, 'int32'], message: [2, 'string'] }),
  DiscoveryResponse: createMessage({
    versionInfo: [1, 'string'],
    resources: [2, 'Any', 'repeated'],
    nonce: [5, 'string'],
  }),
  Any: createMessage({ typeUrl: [1, 'string'], value: [2, 'bytes'] }),
})

/** Fields have the names that configuration files have. */
export const RATE_LIMIT_CONFIG = createPackage('ratelimit.config.ratelimit.v3', {
  Reader: { methods: { Read: { requestType: 'RateLimitConfig', responseType: 'RateLimitConfig' } } },
  RateLimitConfig: createMessage({
    name: [1, 'string'],
    domain: [2, 'string'],
    descriptors: [3, 'RateLimitDescriptor', 'repeated'],
  }),
  RateLimitDescriptor: createMessage({
    key: [1, 'string'],
    value: [2, 'string'],
    rate_limit: [3, 'RateLimitPolicy'],
    descriptors: [4, 'RateLimitDescriptor', 'repeated'],
    shadow_mode: [5, 'bool'],
    detailed_metric: [6, 'bool'],
    quota_mode: [7, 'bool'],
  }),
  RateLimitPolicy: createMessage({
    unit: [1, 'Unit'],
    requests_per_unit: [2, 'uint32'],
    unlimited: [3, 'bool'],
    name: [4, 'string'],
    replaces: [5, 'RateLimitReplace', 'repeated'],
  }),
  RateLimitReplace: createMessage({ name: [1, 'string'] }),
  Unit: { values: units },
})

export function defineService(described: object, name: string, options: Options = {}): ServiceDefinition {
  return fromJSON(described, { longs: Number, enums: String, defaults: true, ...options })[name] as ServiceDefinition
}
