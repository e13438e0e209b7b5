/** Looks for the request that costs a gateway the most processor time. */
import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { seededRandom } from '../../tools/seeded-random.ts'
import type { Variant } from '../gateway/variants.ts'
import { readRunUs } from '../processor-time.ts'
import type { Site } from '../site.ts'
import { type Spread, summarize } from '../statistics.ts'
import { changeShape, describeShape, drawShape, type Shape } from './shapes.ts'

/** Every reader of what strangers send has something to read. */
const POLICIES = [
  { name: 'keys', by: 'header:x-key', anonymous: 'skip' },
  { name: 'query', by: 'query:key', anonymous: 'skip' },
  { name: 'login', match: 'POST /login, /v1/:a/:b/*', ignore_case: true },
  { name: 'users', by: 'ip', match: 'GET /users/:id, DELETE /users/*' },
  { name: 'all', by: 'token', match: '*' },
].map((policy) => ({ ...policy, limits: '1000000/1s', algorithm: 'fixed-window' }))
const ORDINARY: Shape = {
  method: 'GET',
  target: '/users/42?key=a',
  headers: { Authorization: 'Bearer 0123456789abcdef', 'X-Key': 'k', Accept: '*/*', 'CF-Connecting-IP': '203.0.113.7' },
}

export interface WorstFigures {
  readonly gateway: string
  readonly request: string
  /** Processor time of workerd for one such request. */
  readonly processorUs: Spread
}

const SEED = 1
/** Requests that are tried. */
const CANDIDATES = 300
/** How often each is sent during the search. */
const LOOKS = 10
/** How often the worst ones are sent again, in each turn, to measure them well. */
const REPETITIONS = 50
/** How many of the worst are measured again, in turns with an ordinary request. */
const FINALISTS = 5
/** Share of the candidates that are like one of the worst so far, except for one part. */
const CLIMBING = 0.5
const TURNS = 5

/**
 * Searches among generated requests, at random and by changing the worst ones.
 * @returns an ordinary request first
 */
export async function measureWorst({ name, source }: Variant, site: Site): Promise<WorstFigures[]> {
  const random = seededRandom(SEED)
  await using gateway = await site.startGateway({
    source,
    bindings: { STORE: 'memory', POLICIES: JSON.stringify(POLICIES) },
  })
  const measure = (shape: Shape, times: number) => measureRequest(gateway, shape, times)
  // Compiles what is hot.
  await measure(ORDINARY, TURNS * REPETITIONS)
  let found: { shape: Shape; us: number }[] = []
  for (let i = 0; i < CANDIDATES; i++) {
    const worst = found[Math.floor(random() * found.length)]
    const shape = worst && random() < CLIMBING ? changeShape(worst.shape, random) : drawShape(random)
    const us = await measure(shape, LOOKS)
    if (us === undefined) continue
    found = [...found, { shape, us }].sort((a, b) => b.us - a.us).slice(0, FINALISTS)
  }
  const runs = [ORDINARY, ...found.map(({ shape }) => shape)].map((shape) => ({ shape, us: [] as number[] }))
  for (let turn = 0; turn < TURNS; turn++) {
    for (const { shape, us } of runs) us.push((await measure(shape, REPETITIONS)) ?? Number.NaN)
  }
  return runs.map(({ shape, us }) => ({
    gateway: name,
    request: describeShape(shape),
    processorUs: summarize(us),
  }))
}

/** @returns undefined if workerd does not let it in */
async function measureRequest(
  { url, pid }: { readonly url: URL; readonly pid: number },
  shape: Shape,
  times: number,
): Promise<number | undefined> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  try {
    // Twice, so that the connection and what is compiled for it are not counted.
    if (!(await send(url, shape, agent)) || !(await send(url, shape, agent))) return undefined
    const beforeUs = readRunUs(pid)
    for (let i = 0; i < times; i++) await send(url, shape, agent)
    return (readRunUs(pid) - beforeUs) / times
  } finally {
    agent.destroy()
  }
}

/** @returns whether it reached the gateway: the connection was not closed, nor did workerd itself refuse */
async function send(url: URL, { method, target, headers }: Shape, agent: Agent): Promise<boolean> {
  const { hostname, port } = url
  try {
    const client = request({ hostname, port, method, path: target, headers: headers as Record<string, string>, agent })
    client.end()
    const [response] = await once(client, 'response')
    response.resume()
    await once(response, 'end')
    return response.statusCode < 400 || response.headers['content-type'] !== undefined || method === 'HEAD'
  } catch {
    return false
  }
}
