/** A REST front that does to requests what a network and a server on a bad day would do. */
import { once } from 'node:events'
import { Agent, type IncomingMessage, type ServerResponse, request as startRequest } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import type { Fault } from './faults.ts'
import { startLocalServer } from './local-server.ts'
import { seededRandom } from './seeded-random.ts'

export interface FaultyFront {
  readonly url: string
  /** HTTP requests so far. */
  readonly requests: number
  /** How many of them called scripts. */
  readonly scriptCalls: number
  /** Scripts that were run, and whose answer a fault then altered or cut: their callers cannot know what they did. */
  readonly spoiled: number
  /**
   * Does this to each request that comes from now on; undefined serves them. Those that hang go on doing so.
   * @param share of the requests to do it to, 0 to 1; the others are served
   */
  inject(fault: Fault | undefined, share?: number): void
  /** Serves from another REST front from now on, as after a failover. */
  forwardTo(target: string): void
  /** Cuts open connections and resolves when the port is free. May be repeated. */
  stop(): Promise<void>
}

interface Reply {
  readonly status: number
  readonly type: string
  readonly body: string
}

/**
 * Passes requests on to a REST front, from 127.0.0.1. Faults are switched while it runs.
 * @param options target: URL of the REST front; seed: of the random numbers, the same one draws the same ones
 */
export async function startFaultyFront(options: { target: string; seed?: number }): Promise<FaultyFront> {
  const { target, seed = 1 } = options
  const agent = new Agent({ keepAlive: true })
  const random = seededRandom(seed)
  let origin = target
  let fault: Fault | undefined
  let faultShare = 1

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const injected = fault && random() < faultShare ? fault : undefined
    front.requests++
    const command = await text(request)
    const isScript = /^\["evalsha"/i.test(command) || /^\["eval"/i.test(command)
    if (isScript) front.scriptCalls++

    const refusal = injected && findRefusal(injected, command, request.headers.authorization ?? '')
    if (refusal === 'nothing') return
    if (refusal) return send(response, refusal)

    if (injected?.kind === 'delay') await wait(drawBetween(injected, random))
    const reply = await callFront(request, command, origin, agent)
    if (isScript && reply.status === 200 && (injected?.kind === 'rewrite' || injected?.kind === 'reset'))
      front.spoiled++
    await respond(response, reply, injected, random)
  }

  const { url, stop } = await startLocalServer((request, response) => {
    // The client has gone away, or is to believe that the server has.
    serve(request, response).catch(() => response.destroy())
  })
  const front = {
    url,
    requests: 0,
    scriptCalls: 0,
    spoiled: 0,
    inject(next: Fault | undefined, share = 1) {
      fault = next
      faultShare = share
    },
    forwardTo(next: string) {
      origin = next
    },
    async stop() {
      await stop()
      agent.destroy()
    },
  }
  return front
}

/** The answer that a fault gives without running the command; undefined if it lets it run. */
function findRefusal(fault: Fault, command: string, authorization: string): Reply | 'nothing' | undefined {
  switch (fault.kind) {
    case 'hang':
      return fault.runs ? undefined : 'nothing'
    case 'error':
      return toReply(fault.status, { error: `ERR injected by ${authorization}, command was: ${command}` })
    case 'body':
      return { status: fault.status, type: fault.type, body: fault.text }
    case 'noscript':
      return /^\["evalsha"/i.test(command) || (fault.everyScript && /^\["eval"/i.test(command))
        ? toReply(400, { error: 'NOSCRIPT No matching script. Please use EVAL.' })
        : undefined
    default:
      return undefined
  }
}

async function respond(
  response: ServerResponse,
  reply: Reply,
  fault: Fault | undefined,
  random: () => number,
): Promise<void> {
  switch (fault?.kind) {
    case 'hang':
      return
    case 'held':
      await fault.until
      break
    case 'rewrite':
      return send(response, { ...reply, body: fault.rewrite(reply.body) })
    case 'reset': {
      const body = Buffer.from(reply.body)
      response.writeHead(reply.status, { 'content-type': reply.type, 'content-length': body.length })
      response.write(body.subarray(0, body.length / 2), () => response.socket?.resetAndDestroy())
      return
    }
    case 'latency': {
      await wait(drawBetween(fault, random))
    }
  }
  send(response, reply)
}

function drawBetween({ minMs, maxMs }: { minMs: number; maxMs: number }, random: () => number): number {
  return minMs + random() * (maxMs - minMs)
}

function send(response: ServerResponse, { status, type, body }: Reply): void {
  const bytes = Buffer.from(body)
  response.writeHead(status, { 'content-type': type, 'content-length': bytes.length })
  response.end(bytes)
}

/** Runs the command. It is not cancelled if the client goes away: Redis would not know either. */
async function callFront(
  { method, url, headers }: IncomingMessage,
  body: string,
  origin: string,
  agent: Agent,
): Promise<Reply> {
  const { 'content-length': _, 'transfer-encoding': __, connection: ___, host: ____, ...passed } = headers
  const outgoing = startRequest(new URL(url ?? '/', origin).href, { method: method ?? 'POST', headers: passed, agent })
  outgoing.end(body)
  const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage]
  const {
    statusCode: status = 502,
    headers: { 'content-type': type = '' },
  } = incoming
  return { status, type, body: await text(incoming) }
}

function toReply(status: number, body: object): Reply {
  return { status, type: 'application/json', body: JSON.stringify(body) }
}
