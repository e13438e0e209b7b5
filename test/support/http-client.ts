import { once } from 'node:events'
import { type Agent, type ClientRequest, type IncomingMessage, request as startRequest } from 'node:http'
import { buffer } from 'node:stream/consumers'

export interface Sent {
  /** Default: GET. */
  readonly method?: string
  /** Request target, sent as it is; default: `/`. */
  readonly path?: string
  readonly headers?: Readonly<Record<string, string | readonly string[]>>
  readonly body?: string
  /** Default: a connection of its own. */
  readonly agent?: Agent
  /** Address that the connection comes from; default: the system's choice. */
  readonly localAddress?: string
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

/** Begins a request whose body the caller writes. */
export function openRequest(
  gateway: URL,
  { method = 'GET', path = '/', headers = {}, agent, localAddress }: Omit<Sent, 'body'>,
): ClientRequest {
  const { hostname, port } = gateway
  return startRequest({
    hostname,
    port,
    method,
    path,
    headers: headers as Record<string, string>,
    agent: agent ?? false,
    localAddress,
  })
}

export async function responseTo(client: ClientRequest): Promise<IncomingMessage> {
  const [response] = (await once(client, 'response')) as [IncomingMessage]
  // What breaks off from now on, the response reports.
  client.on('error', () => {})
  return response
}

/** Sends a request, and resolves when its answer's body has begun. */
export async function begin(
  gateway: URL,
  sent: Omit<Sent, 'body'>,
): Promise<{ client: ClientRequest; response: IncomingMessage }> {
  const client = openRequest(gateway, sent).end()
  const response = await responseTo(client)
  await once(response, 'data')
  return { client, response }
}

export function json(answer: Answer): unknown {
  return JSON.parse(answer.body.toString())
}
