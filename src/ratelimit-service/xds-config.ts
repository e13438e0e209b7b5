/** Reads the configuration from a management server of xDS (ADS, state of the world), as Envoy Gateway has one. */
import { readFileSync } from 'node:fs'
import { Client, credentials, type MethodDefinition, type ServiceError } from '@grpc/grpc-js'
import type { OnStoreError } from '../core/model/policy.ts'
import { sleep } from '../core/runtime/sleep.ts'
import { DISCOVERY_SERVICE, defineService, RATE_LIMIT_CONFIG } from './messages.ts'
import { type Domains, readDomains } from './rate-limits.ts'
import type { WatchedConfig } from './watch-config.ts'

const CONFIG_TYPE = 'type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig'
const FIRST_PAUSE_MS = 500
const LONGEST_PAUSE_MS = 10_000
/** A server that is silent for so long gets a ping. */
const KEEPALIVE_MS = 30_000
const INVALID_ARGUMENT = 3

export interface XdsOptions {
  /** Host and port of the management server. */
  readonly address: string
  /** Name by which the server knows whose configuration is wanted. */
  readonly nodeId: string
  /** Files, read at each connection. Without `ca`, it is in the clear. */
  readonly ca?: string | undefined
  readonly cert?: string | undefined
  readonly key?: string | undefined
}

interface DiscoveryRequest {
  readonly versionInfo: string
  readonly node: { readonly id: string }
  readonly typeUrl: string
  readonly responseNonce?: string
  readonly errorDetail?: { readonly code: number; readonly message: string }
}

interface DiscoveryResponse {
  readonly versionInfo: string
  readonly nonce: string
  readonly resources: readonly { readonly typeUrl: string; readonly value: Buffer }[]
}

type Method<Sent, Received> = MethodDefinition<Sent, Received>

const { StreamAggregatedResources } = defineService(
  DISCOVERY_SERVICE,
  'envoy.service.discovery.v3.AggregatedDiscoveryService',
) as unknown as { readonly StreamAggregatedResources: Method<DiscoveryRequest, DiscoveryResponse> }
/** No server offers it: it reads what a resource holds. */
const { Read } = defineService(RATE_LIMIT_CONFIG, 'ratelimit.config.ratelimit.v3.Reader', {
  defaults: false,
}) as unknown as { readonly Read: Method<object, { readonly name?: string }> }

/**
 * Resolves with the first configuration that can be read.
 * @param note writes that another version is active, or why the one before stays active
 * @param signal ends it
 * @throws {Error} if a file of `options` cannot be read at the start, or if it is ended before
 */
export async function openXdsConfig(
  options: XdsOptions,
  onStoreError: OnStoreError,
  note: (text: string) => void,
  signal: AbortSignal,
): Promise<WatchedConfig> {
  const { address, nodeId } = options
  let [resolve, reject]: [() => void, (error: Error) => void] = [() => {}, () => {}]
  const first = new Promise<void>((...settle) => {
    ;[resolve, reject] = settle
  })
  let domains: Domains = new Map()
  let versionInfo = ''
  let lastProblem = ''
  let isClosed = false
  let client = connect(options)
  const close = () => {
    isClosed = true
    client.close()
    reject(new Error(`${address} gave no configuration`))
  }
  signal.addEventListener('abort', close)

  const report = (problem: string) => {
    const active = versionInfo === '' ? 'there is none yet' : 'the configuration before stays active'
    if (problem !== lastProblem) note(`${problem}; ${active}`)
    lastProblem = problem
  }

  /** Reads one stream to its end. @returns whether anything was received */
  function follow(): Promise<boolean> {
    const { path, requestSerialize, responseDeserialize } = StreamAggregatedResources
    const stream = client.makeBidiStreamRequest(path, requestSerialize, responseDeserialize)
    const send = (more: Partial<DiscoveryRequest> = {}) =>
      stream.write({ versionInfo, node: { id: nodeId }, typeUrl: CONFIG_TYPE, ...more })
    let hasReceived = false
    stream.on('data', ({ versionInfo: version, nonce: responseNonce, resources }: DiscoveryResponse) => {
      hasReceived = true
      try {
        domains = readDomains(resources.map(toFile), onStoreError)
        versionInfo = version
        lastProblem = ''
        note(`${address}: version ${version} is active, with ${domains.size} domains`)
        send({ responseNonce })
        resolve()
      } catch (error) {
        const { message } = error as Error
        report(`${address}: version ${version} is refused: ${message}`)
        send({ responseNonce, errorDetail: { code: INVALID_ARGUMENT, message } })
      }
    })
    send()
    return new Promise((ended) => {
      stream.on('error', ({ details }: ServiceError) => {
        if (!isClosed) report(`${address} gives no configuration (${details})`)
        ended(hasReceived)
      })
      stream.on('end', () => {
        stream.end()
        ended(hasReceived)
      })
    })
  }

  async function followAlways(): Promise<void> {
    for (let pauseMs = FIRST_PAUSE_MS; !isClosed; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
      if (await follow()) pauseMs = FIRST_PAUSE_MS
      client.close()
      if (isClosed) return
      await sleep(pauseMs)
      try {
        client = connect(options)
      } catch (error) {
        report((error as Error).message)
      }
    }
  }

  void followAlways()
  await first
  return {
    get domains() {
      return domains
    },
    close,
  }
}

function connect({ address, ca, cert, key }: XdsOptions): Client {
  const channel =
    ca === undefined
      ? credentials.createInsecure()
      : credentials.createSsl(readFileSync(ca), key ? readFileSync(key) : null, cert ? readFileSync(cert) : null)
  return new Client(address, channel, { 'grpc.keepalive_time_ms': KEEPALIVE_MS })
}

/** JSON is YAML, so a resource is read as a file is. */
function toFile({ typeUrl, value }: DiscoveryResponse['resources'][number]) {
  if (typeUrl !== CONFIG_TYPE) throw new Error(`expected resources of type ${CONFIG_TYPE}, got ${typeUrl}`)
  const { name = 'a resource without a name', ...config } = Read.requestDeserialize(value) as { readonly name?: string }
  return { name, text: JSON.stringify(config) }
}
