/** Upstash's REST protocol over a Redis, for development and tests. */
import type { IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout } from 'node:timers/promises'
import { createClient, ErrorReply, MultiErrorReply, RESP_TYPES } from '@redis/client'
import { startLocalServer } from './local-server.ts'
import { parseCommand, parseCommands, RequestError, refuseUnavailable } from './rest-commands.ts'
import { createScriptFlags } from './script-flags.ts'

const HOST = '127.0.0.1'
const RECONNECT_EVERY_MS = 50
/** The bound of Upstash's pay-as-you-go plan. */
const MAX_BODY_BYTES = 10 * 1024 * 1024

export interface RestFrontOptions {
  /** Port on 127.0.0.1 of the Redis behind. */
  redisPort: number
  /** The bearer token that requests must carry. */
  token: string
  /** Default: a free one. */
  port?: number
  /** `false` hands the first line `#!lua flags=…` of a script on to Redis, as a plain proxy would. Default: true. */
  stripShebang?: boolean
  /** Milliseconds by which each answer comes later, as from a Redis far away. Default: 0. */
  delayMs?: number
}

export interface RestFront {
  readonly url: string
  readonly token: string
  /** HTTP requests seen so far, refused ones included. */
  readonly requests: number
  /** Cuts open connections and resolves when the port is free. May be repeated. */
  stop(): Promise<void>
}

type Item = { result: unknown } | { error: string }

/**
 * Serves Upstash's REST protocol (https://upstash.com/docs/redis/features/restapi), commands in the body of a POST only,
 * over a Redis and on 127.0.0.1. While Redis is away, requests are answered with 503.
 * @throws Error if Redis does not answer or the port is taken.
 */
export async function startRestFront(options: RestFrontOptions): Promise<RestFront> {
  const { redisPort, token, port, stripShebang, delayMs = 0 } = options
  const scriptFlags = createScriptFlags(stripShebang)
  const redis = await connectRedis(redisPort)
  const redisOfBytes = redis.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer })

  async function answer(request: IncomingMessage): Promise<Item | Item[]> {
    // Read first: a client refused while it still sends sees a broken connection instead of the answer.
    const body = await readBody(request)
    if (request.headers.authorization !== `Bearer ${token}`) {
      throw new RequestError(401, 'WRONGPASS invalid or missing auth token')
    }
    if (request.method !== 'POST') throw new RequestError(405, 'ERR method not allowed')
    const isBase64 = request.headers['upstash-encoding'] === 'base64'
    switch (request.url) {
      case '/':
        return runCommand(parseCommand(body), isBase64)
      case '/pipeline':
        return runPipeline(parseCommands(body, 'pipeline'), isBase64)
      case '/multi-exec':
        return runTransaction(parseCommands(body, 'multi-exec'), isBase64)
      default:
        throw new RequestError(404, 'ERR not found')
    }
  }

  async function runCommand(args: string[], isBase64: boolean): Promise<Item> {
    refuseUnavailable(args)
    const client = isBase64 ? redisOfBytes : redis
    const reply: unknown = await client.sendCommand(scriptFlags.strip(args))
    return { result: toJson(scriptFlags.restore(args, reply), isBase64) }
  }

  function runPipeline(commands: string[][], isBase64: boolean): Promise<Item[]> {
    return Promise.all(
      commands.map((args) =>
        runCommand(args, isBase64).catch((error: unknown) => {
          if (toStatus(error) === 400) return { error: (error as Error).message }
          throw error
        }),
      ),
    )
  }

  async function runTransaction(commands: string[][], isBase64: boolean): Promise<Item[]> {
    // Unlike a single command, the client would keep a transaction until Redis is back.
    if (!redis.isReady) throw new Error('Redis is away')
    commands.forEach(refuseUnavailable)
    const transaction = (isBase64 ? redisOfBytes : redis).multi()
    for (const args of commands) transaction.addCommand(scriptFlags.strip(args))
    const replies = await transaction.exec().catch((error: unknown) => {
      if (error instanceof MultiErrorReply) return error.replies
      throw error
    })
    return commands.map((args, i) => {
      const reply: unknown = replies[i]
      if (reply instanceof ErrorReply) return { error: reply.message }
      return { result: toJson(scriptFlags.restore(args, reply), isBase64) }
    })
  }

  const starting = startLocalServer(async (request, response) => {
    front.requests++
    let status = 200
    let body: Item | Item[]
    try {
      body = await answer(request)
    } catch (error) {
      status = toStatus(error)
      body = { error: status === 503 ? `ERR no answer from Redis at ${HOST}:${redisPort}` : (error as Error).message }
    }
    if (delayMs > 0) await setTimeout(delayMs)
    const json = Buffer.from(JSON.stringify(body))
    response.writeHead(status, { 'content-type': 'application/json', 'content-length': json.length })
    response.end(json)
  }, port)
  const { url, stop } = await starting.catch((error) => {
    redis.destroy()
    throw error
  })
  const front = {
    url,
    token,
    requests: 0,
    async stop() {
      await stop()
      redis.destroy()
    },
  }
  return front
}

async function connectRedis(port: number) {
  let wasConnected = false
  const client = createClient({
    // Upstash shows replies in the shapes of RESP2; RESP3 would turn some arrays into maps.
    RESP: 2,
    socket: {
      host: HOST,
      port,
      // A Redis that is not there at the start is a mistake; later, it comes back.
      reconnectStrategy: (_retries, cause) => (wasConnected ? RECONNECT_EVERY_MS : cause),
    },
    disableOfflineQueue: true,
    // Redis counts and monitors the commands of requests, and no others.
    disableClientInfo: true,
    maintNotifications: 'disabled',
    // The client's own timer for each command costs a fifth of the throughput; callers have their deadlines.
    commandOptions: { timeout: 0 },
  })
  // Requests that fail say so themselves; an 'error' event without a listener would end the process.
  client.on('error', () => {})
  try {
    await client.connect()
  } catch (error) {
    throw new Error(`no Redis at ${HOST}:${port}: ${(error as Error).message}`)
  }
  wasConnected = true
  return client
}

function toStatus(error: unknown): number {
  if (error instanceof RequestError) return error.status
  return error instanceof ErrorReply ? 400 : 503
}

async function readBody(request: IncomingMessage): Promise<string> {
  const body = await text(request)
  const size = Buffer.byteLength(body)
  if (size <= MAX_BODY_BYTES) return body
  throw new RequestError(400, `ERR max request size exceeded. Limit: ${MAX_BODY_BYTES} bytes, Actual: ${size} bytes`)
}

function toJson(reply: unknown, isBase64: boolean): unknown {
  if (Array.isArray(reply)) return reply.map((item) => toJson(item, isBase64))
  // A script may return errors inside an array.
  if (reply instanceof ErrorReply) return reply.message
  if (!isBase64 || reply === 'OK') return reply
  if (typeof reply === 'string' || reply instanceof Uint8Array) return Buffer.from(reply).toString('base64')
  return reply
}
