/**
 * The API behind every gateway, and the REST front before Redis: each in a process of its own, so that its work is not
 * counted as another's. This module runs there, too: `services.ts api`, or `services.ts front <redis port> <token>
 * <delay ms>`.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { startLocalServer } from '../tools/local-server.ts'
import { startRestFront } from '../tools/rest-front.ts'

export interface Service {
  /** Where it listens. */
  readonly url: string
  /** Its answer to a question. One question at a time. */
  ask<T>(question: string): Promise<T>
  stop(): Promise<void>
}

/**
 * Answers every request alike. Of requests to /record/<name> it keeps the time of arrival; `ask('arrivals')` takes them
 * out, as [name, ms of the machine's monotonic clock].
 */
export function startApi(): Promise<Service> {
  return startService('api')
}

/**
 * Upstash's REST interface over a Redis; answers any question with the number of its requests so far.
 * @param delayMs by which its answers come later
 */
export function startFront(redisPort: number, token: string, delayMs: number): Promise<Service> {
  return startService('front', redisPort, token, delayMs)
}

/** Milliseconds of a clock that all processes of the machine share and that is never set. */
export function readMonotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}

/** @throws Error if the process ends before it has said where it listens */
async function startService(...args: readonly (string | number)[]): Promise<Service> {
  const child = fork(fileURLToPath(import.meta.url), args.map(String), {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  const exited = once(child, 'exit')
  const answer = async () => {
    const [message] = await Promise.race([
      once(child, 'message'),
      exited.then(() => {
        throw new Error(`the process of ${args[0]} has ended`)
      }),
    ])
    return message
  }
  const url: string = await answer()
  return {
    url,
    async ask(question) {
      const answered = answer()
      child.send(question)
      return answered
    },
    async stop() {
      child.kill()
      await exited
    },
  }
}

if (import.meta.main) {
  const [service, ...args] = process.argv.slice(2)
  const { url, answer } = service === 'api' ? await serveApi() : await serveFront(args)
  process.on('disconnect', () => process.exit())
  process.on('message', () => process.send?.(answer()))
  process.send?.(url)
}

interface Serving {
  readonly url: string
  answer(): unknown
}

async function serveFront([redisPort, token = '', delayMs]: readonly string[]): Promise<Serving> {
  const front = await startRestFront({ redisPort: Number(redisPort), token, delayMs: Number(delayMs) })
  return { url: front.url, answer: () => front.requests }
}

async function serveApi(): Promise<Serving> {
  const body = Buffer.from('{"ok":true}')
  const record = '/record/'
  let arrivals: [string, number][] = []
  // workerd lets in as much.
  const maxHeaderSize = 1 << 20
  const { url } = await startLocalServer(
    ({ url = '' }, response) => {
      if (url.startsWith(record)) arrivals.push([url.slice(record.length), readMonotonicMs()])
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length })
      response.end(body)
    },
    0,
    { maxHeaderSize },
  )
  return {
    url,
    answer() {
      const seen = arrivals
      arrivals = []
      return seen
    },
  }
}
