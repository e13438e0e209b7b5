/** The configuration of a management server, which talks Envoy's official messages of xDS. */
import { join } from 'node:path'
import { type MethodDefinition, Server, ServerCredentials, type ServerDuplexStream } from '@grpc/grpc-js'
import { loadSync } from '@grpc/proto-loader'
import { expect, test, vi } from 'vitest'
import { defineService, RATE_LIMIT_CONFIG } from '../../../src/ratelimit-service/messages.ts'
import { openXdsConfig } from '../../../src/ratelimit-service/xds-config.ts'
import { findFreePort } from '../../../tools/free-port.ts'
import { descriptor, RateLimitClient } from '../../support/rate-limit-client.ts'
import { startServing } from '../../support/serving-process.ts'

const DESCRIPTORS = join(import.meta.dirname, '../../../node_modules/@grpc/grpc-js-xds/deps')
const includeDirs = ['envoy-api', 'xds', 'protoc-gen-validate', 'googleapis'].map((name) => join(DESCRIPTORS, name))
const TYPE = 'type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig'
const OFFICIAL = loadSync(['envoy/service/discovery/v3/ads.proto', 'envoy/service/discovery/v3/discovery.proto'], {
  ...{ includeDirs, enums: String, defaults: true },
})
// The official message says what an Any holds only by names, so ours stand in for its bytes.
const { Read } = defineService(RATE_LIMIT_CONFIG, 'ratelimit.config.ratelimit.v3.Reader') as unknown as {
  readonly Read: MethodDefinition<object, object>
}

interface Received {
  readonly versionInfo: string
  readonly responseNonce: string
  readonly typeUrl: string
  readonly node: { readonly id: string } | null
  readonly errorDetail: { readonly message: string } | null
}

class ManagementServer {
  readonly received: Received[] = []
  readonly #server = new Server()
  readonly #streams = new Set<ServerDuplexStream<Received, object>>()
  #latest: object | undefined

  async start(port = 0): Promise<number> {
    const service = OFFICIAL['envoy.service.discovery.v3.AggregatedDiscoveryService'] as never
    this.#server.addService(service, {
      StreamAggregatedResources: (stream: ServerDuplexStream<Received, object>) => {
        this.#streams.add(stream)
        stream.on('data', (request: Received) => this.received.push(request))
        stream.on('end', () => stream.end())
        stream.on('cancelled', () => this.#streams.delete(stream))
        if (this.#latest) stream.write(this.#latest)
      },
    })
    return new Promise((resolve, reject) => {
      this.#server.bindAsync(`127.0.0.1:${port}`, ServerCredentials.createInsecure(), (error, bound) =>
        error ? reject(error) : resolve(bound),
      )
    })
  }

  publish(versionInfo: string, configs: readonly object[]): void {
    const resources = configs.map((config) => ({ type_url: TYPE, value: Read.requestSerialize(config) }))
    this.#latest = { versionInfo, nonce: `nonce of ${versionInfo}`, typeUrl: TYPE, resources }
    for (const stream of this.#streams) stream.write(this.#latest)
  }

  stop(): void {
    this.#server.forceShutdown()
  }
}

const limited = (domain: string, count: number, more: object = {}) => ({
  name: `config of ${domain}`,
  domain,
  descriptors: [{ key: 'user', rate_limit: { unit: 'HOUR', requests_per_unit: count }, ...more }],
})

test('versions are acknowledged, or refused with the reason, and the server may go away', async () => {
  const management = new ManagementServer()
  const port = await management.start()
  management.publish('1', [limited('d', 5), limited('e', 7, { quota_mode: true })])
  const notes: string[] = []
  const ending = new AbortController()
  const address = `127.0.0.1:${port}`
  const config = await openXdsConfig({ address, nodeId: 'me' }, 'local', (text) => notes.push(text), ending.signal)
  const readLimit = (domain: string) => config.domains.get(domain)?.children.get('user')?.rateLimit
  expect(readLimit('d')).toMatchObject({ limits: { limits: [{ limit: 5 }] }, isQuota: false })
  expect(readLimit('e')).toMatchObject({ limits: { limits: [{ limit: 7 }] }, isQuota: true })
  management.publish('2', [limited('d', 6), limited('d', 6)])
  management.publish('3', [limited('d', 8)])
  await vi.waitUntil(() => config.domains.size === 1, 60_000)
  expect(readLimit('d')).toMatchObject({ limits: { limits: [{ limit: 8 }] } })
  await vi.waitUntil(() => management.received.length === 4, 60_000)
  expect(management.received).toMatchObject([
    { versionInfo: '', responseNonce: '', typeUrl: TYPE, node: { id: 'me' }, errorDetail: null },
    { versionInfo: '1', responseNonce: 'nonce of 1', errorDetail: null },
    { versionInfo: '1', responseNonce: 'nonce of 2', errorDetail: { message: expect.stringContaining('"d" again') } },
    { versionInfo: '3', responseNonce: 'nonce of 3', errorDetail: null },
  ])
  management.stop()
  await vi.waitUntil(() => notes.length === 4, 60_000)
  expect(readLimit('d')).toMatchObject({ limits: { limits: [{ limit: 8 }] } })
  const other = new ManagementServer()
  await other.start(port)
  other.publish('4', [limited('d', 9)])
  await vi.waitUntil(() => notes.length === 5, 60_000)
  expect(other.received[0]?.versionInfo).toBe('3')
  ending.abort()
  other.stop()
  expect(notes).toEqual([
    `${address}: version 1 is active, with 2 domains`,
    expect.stringMatching(/: version 2 is refused: config of d:1:.*; the configuration before stays active$/),
    `${address}: version 3 is active, with 1 domains`,
    expect.stringMatching(/ gives no configuration \(.*\); the configuration before stays active$/),
    `${address}: version 4 is active, with 1 domains`,
  ])
})

test('sluice serve --ratelimit-xds decides by what the server says, and ends while there is none', async () => {
  const management = new ManagementServer()
  const port = await management.start()
  management.publish('1', [limited('d', 1)])
  const serving = await startServing({ STORE: 'memory' }, ['--grpc', '0', '--ratelimit-xds', `127.0.0.1:${port}`])
  const client = new RateLimitClient(serving.grpc)
  const codes = []
  for (let time = 0; time < 2; time++) {
    codes.push((await client.ask('d', [descriptor(['user', 'a'])])).overallCode)
  }
  expect(codes).toEqual(['OK', 'OVER_LIMIT'])
  client[Symbol.dispose]()
  management.stop()
  await serving.stop()
  const ending = new AbortController()
  const away = { address: `127.0.0.1:${await findFreePort()}`, nodeId: 'me' }
  const notes: string[] = []
  const opening = openXdsConfig(away, 'local', (text) => notes.push(text), ending.signal)
  await vi.waitUntil(() => notes.length === 1, 60_000)
  ending.abort()
  await expect(opening).rejects.toThrow('gave no configuration')
})
