import { once } from 'node:events'
import { type ClientRequest, type IncomingMessage, request as startRequest } from 'node:http'
import { buffer } from 'node:stream/consumers'

export interface Sent {
  /** Default: GET. */
  readonly method?: string
  /** Request target, sent as it is; default: `/`. */
  readonly path?: string
  readonly headers?: Readonly<Record<string, string | readonly string[]>>
  readonly body?: string
}

export interface Answer {
  readonly status: number
  readonly headers: IncomingMessage['headers']
  /** Names and values as they came, one after the other. */
  readonly rawHeaders: readonly string[]
  readonly body: Buffer
}

/**
 * Sends a request as it is, unlike `fetch`, which would resolve dot segments, add fields, follow redirects and unpack
 * the body.
 */
export async function send(gateway: URL, { body, ...sent }: Sent = {}): Promise<Answer> {
  const client = openRequest(gateway, sent)
  client.end(body)
  const response = await responseTo(client)
  const { statusCode: status = 0, headers, rawHeaders } = response
  return { status, headers, rawHeaders, body: await buffer(response) }
}

/** Sends requests one after the other. @returns their statuses */
export async function sendInTurn(gateway: URL, requests: readonly Sent[]): Promise<readonly number[]> {
  const statuses: number[] = []
  for (const request of requests) statuses.push((await send(gateway, request)).status)
  return statuses
}

/** Begins a request whose body the caller writes, on a connection of its own. */
export function openRequest(
  gateway: URL,
  { method = 'GET', path = '/', headers = {} }: Omit<Sent, 'body'>,
): ClientRequest {
  const { hostname, port } = gateway
  return startRequest({ hostname, port, method, path, headers: headers as Record<string, string>, agent: false })
}

export async function responseTo(client: ClientRequest): Promise<IncomingMessage> {
  const [response] = (await once(client, 'response')) as [IncomingMessage]
  return response
}

export function json(answer: Answer): unknown {
  return JSON.parse(answer.body.toString())
}
