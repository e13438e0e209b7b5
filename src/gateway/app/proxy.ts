/** Forwards admitted requests to the upstream. */
import type { ExecutionContext } from 'hono'
import type { Settlement } from '../../core/model/verdict.ts'
import { type Deadlines, TOO_LATE } from '../../core/runtime/call-context.ts'
import { createDigest } from '../../core/runtime/digest.ts'
import type { Log } from '../../core/runtime/log.ts'
import type { Config, Environment } from '../../http/config/load-config.ts'
import type { RequestTarget } from '../../http/request/target.ts'
import { markSynthetic } from '../../http/response/exchange.ts'
import { createPassedTest, type IsPassed, removeHopByHop, SECRET_FIELD } from '../../http/response/forwarded-headers.ts'
import type { IncomingRequest } from '../../http/response/incoming-request.ts'
import { copyResponse } from '../../http/response/protect.ts'
import { createGatewayProblem, type Reason } from './gateway-problem.ts'

/** An app that answers admitted requests where the gateway runs. It is given what the runtime gives a Worker. */
export interface Upstream {
  fetch(request: Request, env: Environment, context: ExecutionContext): Response | Promise<Response>
}

/** Deadlines, signals and settlements that go with a forwarded request. */
export interface Passage {
  readonly deadlines: Deadlines
  readonly executionCtx: ExecutionContext
  /** Ends the upstream's work; left out if the response must be awaited. */
  readonly signal?: AbortSignal | undefined
  readonly settlement?: Settlement | undefined
}

/** Forwards a request, and answers with a response whose headers can be changed. */
export type UpstreamProxy = (request: IncomingRequest, target: RequestTarget, passage: Passage) => Promise<Response>

export interface ProxyOptions {
  readonly config: Config
  /** Names this deployment in `Via`: see `createViaName`. */
  readonly viaName: string
  readonly fetch: (input: Request | string, init: RequestInit, raw: Request, passage: Passage) => Promise<Response>
  readonly log: Log
}

/**
 * Creates the proxy: method, path, query, body, cookies, redirects and WebSockets are forwarded unchanged, both bodies as
 * streams. An unreachable upstream is a 502, one that does not begin to respond in time a 504.
 */
export function createProxy({ config, viaName, fetch, log }: ProxyOptions): UpstreamProxy {
  const { upstreamUrl, upstreamTimeoutMs: timeoutMs, upstreamSecret: secret } = config
  const isPassed = createPassedTest(config.forwardHeaders)
  const upstream = upstreamUrl === undefined ? 'UPSTREAM' : new URL(upstreamUrl).origin

  return async function proxy(request, target, passage) {
    const { deadlines, signal, settlement } = passage
    const url = upstreamUrl === undefined ? request.url : upstreamUrl + target.pathAndQuery
    const headers = toUpstream(request, target, viaName, isPassed)
    if (secret !== undefined) headers.set(SECRET_FIELD, secret)
    settlement?.prepare(headers, request.method)
    // Ranges of an encoded body cannot be decoded (RFC 9110 §14.4), so bodies stay as they are.
    const init: RequestInit = { headers, redirect: 'manual', encodeResponseBody: 'manual' }
    // The runtime ignores the signal of the request itself.
    if (signal) init.signal = AbortSignal.any([signal])
    const { raw, method } = request
    // Copying keeps a body, even on GET, where RequestInit forbids one. Without a body, it only costs time.
    const hasBody = raw.body !== null
    if (!hasBody) init.method = method
    try {
      const input = hasBody ? new Request(url, raw) : url
      const response = await deadlines.waitWithin(timeoutMs, fetch(input, init, raw, passage))
      if (response !== TOO_LATE) return toClient(response)
      log('error', { event: 'upstream_timeout', upstream, timeoutMs })
      return createSynthetic('upstream-timeout')
    } catch {
      if (request.signal.aborted) return createSynthetic('client-gone')
      log('error', { event: 'upstream_unreachable', upstream })
      return createSynthetic('unreachable')
    }
  }
}

function createSynthetic(reason: Reason): Response {
  return markSynthetic(createGatewayProblem(reason))
}

function toUpstream(request: IncomingRequest, { host, scheme }: RequestTarget, viaName: string, isPassed: IsPassed) {
  const { headers: received, method } = request
  const headers = new Headers(received.raw)
  // Only names: reading a value costs as much again. Headers that Connection names need no check: a request that names
  // one of these was refused.
  for (const field of received.names) if (!isPassed(field)) headers.delete(field)
  // The runtime opens a WebSocket by GET, whatever the method (RFC 6455 §4.1), and the request was not charged as one.
  const isHandshake = method === 'GET' && received.get('Upgrade')?.toLowerCase() === 'websocket'
  if (isHandshake) headers.set('Upgrade', 'websocket')

  // The version between the runtime and the Worker. Reading the client's from `cf` would cost parsing and copying it.
  headers.append('Via', `1.1 ${viaName}`)
  headers.set('X-Forwarded-Host', host)
  headers.set('X-Forwarded-Proto', scheme)
  const address = received.get('CF-Connecting-IP')
  if (address !== null) headers.set('X-Forwarded-For', address)
  return headers
}

function toClient(response: Response): Response {
  const outgoing = copyResponse(response)
  removeHopByHop(outgoing.headers)
  return outgoing
}

const ID_CHARACTERS = 8

/** Names this deployment in `Via` (RFC 9110 §7.6.3): the same in all isolates, unlike any Sluice before or behind it. */
export function createViaName(config: Pick<Config, 'keyPrefix' | 'upstreamUrl' | 'identitySecret'>): string {
  const { keyPrefix, upstreamUrl, identitySecret } = config
  const id = createDigest(identitySecret)(['via', keyPrefix, upstreamUrl ?? ''])
  // Lower case, because some intermediaries change the case.
  return `sluice-${id.slice(0, ID_CHARACTERS).toLowerCase()}`
}

/** @param via the value of all `Via` headers */
export function isLoop(via: string | null, name: string): boolean {
  const text = via?.toLowerCase()
  // A comment with the name counts too: a request that claims to have been here may have been.
  return text?.includes(name) === true && text.split(/[\s,()]+/).includes(name)
}
