import { once } from 'node:events'
import { Agent, createServer, type IncomingMessage, type ServerResponse, request as startRequest } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import type { Fault } from './faults.ts'
import { seededRandom } from './seeded-random.ts'
import { stopServer } from './stop-server.ts'

const HOST = '127.0.0.1'
const NOSCRIPT = JSON.stringify({ error: 'NOSCRIPT No matching script. Please use EVAL.' })

export interface FaultyFrontOptions {
  /** URL of the REST front that serves what no fault keeps from it. */
  target: string
  /** Default: a free one. */
  port?: number
  /** Of the random numbers; the same seed draws the same ones. Default: 1. */
  seed?: number
}

export interface FaultyFront {
  readonly url: string
  /** HTTP requests so far. */
  readonly requests: number
  /** Of these, calls of scripts. */
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
 * Stands in front of a REST front, on 127.0.0.1, and passes requests on as they are, or does to them what a network and
 * a server on a bad day would do. Faults are switched while it runs.
 * @throws Error if the port is taken.
 */
export async function startFaultyFront({ target, port = 0, seed = 1 }: FaultyFrontOptions): Promise<FaultyFront> {
  const agent = new Agent({ keepAlive: true })
  const random = seededRandom(seed)
  let origin = target
  let fault: Fault | undefined
  let faultShare = 1
  let requests = 0
  let scriptCalls = 0
  let spoiled = 0

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const injected = fault && random() < faultShare ? fault : undefined
    requests++
    const command = await text(request)
    const isScript = /^\["evalsha"/i.test(command) || /^\["eval"/i.test(command)
    if (isScript) scriptCalls++

    const refusal = injected && answerInstead(injected, command, request.headers.authorization ?? '')
    if (refusal === 'nothing') return
    if (refusal) return send(response, refusal)

    if (injected?.kind === 'delay') await wait(between(injected, random))
    const reply = await pass(request, command, origin, agent)
    if (isScript && reply.status === 200 && (injected?.kind === 'rewrite' || injected?.kind === 'reset')) spoiled++
    await deliver(response, reply, injected, random)
  }

  const server = createServer((request, response) => {
    // The client has gone away, or is told so.
    serve(request, response).catch(() => response.destroy())
  })
  server.keepAliveTimeout = 0
  server.listen(port, HOST)
  await once(server, 'listening')

  return {
    url: `http://${HOST}:${(server.address() as AddressInfo).port}`,
    get requests() {
      return requests
    },
    get scriptCalls() {
      return scriptCalls
    },
    get spoiled() {
      return spoiled
    },
    inject(next, share = 1) {
      fault = next
      faultShare = share
    },
    forwardTo(next) {
      origin = next
    },
    async stop() {
      await stopServer(server)
      agent.destroy()
    },
  }
}

/** The answer that a fault gives without running the command; undefined if it lets it run. */
function answerInstead(fault: Fault, command: string, authorization: string): Reply | 'nothing' | undefined {
  switch (fault.kind) {
    case 'hang':
      return fault.runs ? undefined : 'nothing'
    case 'error':
      return json(fault.status, JSON.stringify({ error: `ERR injected by ${authorization}, command was: ${command}` }))
    case 'body':
      return { status: fault.status, type: fault.type, body: fault.text }
    case 'noscript':
      return /^\["evalsha"/i.test(command) || (fault.everyScript && /^\["eval"/i.test(command))
        ? json(400, NOSCRIPT)
        : undefined
    default:
      return undefined
  }
}

async function deliver(
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
      await wait(between(fault, random))
    }
  }
  send(response, reply)
}

function between({ minMs, maxMs }: { minMs: number; maxMs: number }, random: () => number): number {
  return minMs + random() * (maxMs - minMs)
}

function send(response: ServerResponse, { status, type, body }: Reply): void {
  const bytes = Buffer.from(body)
  response.writeHead(status, { 'content-type': type, 'content-length': bytes.length })
  response.end(bytes)
}

/** Runs the command. It is not cancelled if the client goes away: Redis would not know either. */
async function pass({ method, url, headers }: IncomingMessage, body: string, origin: string, agent: Agent) {
  const { 'content-length': _, 'transfer-encoding': __, connection: ___, host: ____, ...passed } = headers
  const outgoing = startRequest(new URL(url ?? '/', origin).href, { method: method ?? 'POST', headers: passed, agent })
  outgoing.end(body)
  const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage]
  const reply: Reply = {
    status: incoming.statusCode ?? 502,
    type: incoming.headers['content-type'] ?? '',
    body: await text(incoming),
  }
  return reply
}

function json(status: number, body: string): Reply {
  return { status, type: 'application/json', body }
}
