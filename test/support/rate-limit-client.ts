/** A client of the rate limit service, by the official descriptors of Envoy, which a package of gRPC's own brings along. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  type ChannelCredentials,
  type Client,
  credentials,
  loadPackageDefinition,
  type MethodDefinition,
  type ServiceDefinition,
  type ServiceError,
} from '@grpc/grpc-js'
import { fromJSON, loadSync, type Options } from '@grpc/proto-loader'
import { HEALTH_SERVICE, RATE_LIMIT_SERVICE } from '../../src/ratelimit-service/messages.ts'
import { startServing } from './serving-process.ts'
import { share } from './share.ts'

const DESCRIPTORS = join(import.meta.dirname, '../../node_modules/@grpc/grpc-js-xds/deps')
const includeDirs = ['envoy-api', 'xds', 'protoc-gen-validate', 'googleapis'].map((name) => join(DESCRIPTORS, name))
const OPTIONS: Options = { longs: Number, enums: String, defaults: true, includeDirs }

type Unary = (request: object, options: object, done: (error: ServiceError | null, answer: object) => void) => void

const NAME = 'envoy.service.ratelimit.v3.RateLimitService'
const OFFICIAL = loadSync('envoy/service/ratelimit/v3/rls.proto', OPTIONS)
/** With the fields that are newer than that package: `hitsAddend` and `isNegativeHits` of a descriptor, and weeks. */
const NEWER = fromJSON(RATE_LIMIT_SERVICE, OPTIONS)
const HEALTH = fromJSON(HEALTH_SERVICE, OPTIONS)

export interface Answer {
  readonly overallCode: string
  readonly statuses: readonly {
    readonly code: string
    readonly currentLimit: { readonly requestsPerUnit: number; readonly unit: string; readonly name: string } | null
    readonly limitRemaining: number
    readonly durationUntilReset: { readonly seconds: number; readonly nanos: number } | null
  }[]
  readonly responseHeadersToAdd: readonly { readonly key: string; readonly value: string }[]
}

export interface Fields {
  readonly hitsAddend?: number | { readonly value: number }
  readonly limit?: { readonly requestsPerUnit: number; readonly unit: string | number }
  readonly isNegativeHits?: boolean
}

/** @param entries keys and values in turn */
export function descriptor(entries: readonly string[], fields: Fields = {}) {
  const pairs = entries.flatMap((key, at) => (at % 2 === 0 ? [{ key, value: entries[at + 1] ?? '' }] : []))
  return { entries: pairs, ...fields }
}

function open(
  definition: ReturnType<typeof loadSync>,
  name: string,
  address: string,
  channel: ChannelCredentials,
): Client & Record<string, Unary> {
  const found = name.split('.').reduce((scope, part) => scope[part] as never, loadPackageDefinition(definition))
  const Service = found as unknown as new (...args: unknown[]) => Client & Record<string, Unary>
  return new Service(address, channel)
}

export class RateLimitClient implements Disposable {
  readonly #official: ReturnType<typeof open>
  readonly #newer: ReturnType<typeof open>
  readonly health: ReturnType<typeof open>

  constructor(address: string, channel = credentials.createInsecure()) {
    this.#official = open(OFFICIAL, NAME, address, channel)
    this.#newer = open(NEWER, NAME, address, channel)
    this.health = open(HEALTH, 'grpc.health.v1.Health', address, channel)
  }

  /** @param options such as `deadline`. Asks by the official descriptors, or by the newer ones if it has fields of those. */
  ask(
    domain: string,
    descriptors: readonly ReturnType<typeof descriptor>[],
    fields = {},
    options = {},
  ): Promise<Answer> {
    const isNewer = JSON.stringify(descriptors).match(/hitsAddend|isNegativeHits|WEEK/)
    const client = isNewer ? this.#newer : this.#official
    return call(client, 'ShouldRateLimit', { domain, descriptors, ...fields }, options) as Promise<Answer>
  }

  [Symbol.dispose](): void {
    for (const client of [this.#official, this.#newer, this.health]) client.close()
  }
}

/** A request in the frame that gRPC sends it in. */
export function encodeRequest(request: object): Buffer {
  const { requestSerialize } = (OFFICIAL[NAME] as ServiceDefinition).ShouldRateLimit as MethodDefinition<object, object>
  const body = requestSerialize(request)
  const head = Buffer.alloc(5)
  head.writeUInt32BE(body.length, 1)
  return Buffer.concat([head, body])
}

/** @param options such as `deadline` */
export function call(client: Record<string, Unary>, method: string, request: object, options = {}): Promise<object> {
  return new Promise((resolve, reject) => {
    client[method]?.(request, options, (error, answer) => (error ? reject(error) : resolve(answer)))
  })
}

/** Serves domains to the tests of one file, as `sluice serve --grpc`. */
export function shareDomains(domains: Readonly<Record<string, readonly object[]>>, env: object = {}) {
  return share(async () => {
    const folder = writeDomains(domains)
    const serving = await startServing({ STORE: 'memory', ...env }, ['--grpc', '0', '--ratelimit-config', folder])
    const client = new RateLimitClient(serving.grpc)
    const stop = async () => {
      client[Symbol.dispose]()
      await serving.stop()
      rmSync(folder, { recursive: true })
    }
    return { serving, client, stop }
  })
}

/** Writes a configuration file for each domain. JSON is YAML. @returns their folder */
export function writeDomains(domains: Readonly<Record<string, readonly object[]>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-'))
  for (const [domain, descriptors] of Object.entries(domains)) {
    writeFileSync(join(folder, `${domain}.yaml`), JSON.stringify({ domain, descriptors }))
  }
  return folder
}
