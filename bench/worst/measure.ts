import { once } from 'node:events'
import { Agent, request } from 'node:http'
import type { Bundle } from '../../test/support/build-bundle.ts'
import { startDirectGateway } from '../../test/support/direct-gateway.ts'
import { seededRandom } from '../../tools/seeded-random.ts'
import { runUs } from '../processor-time.ts'
import type { Service } from '../services.ts'
import { changed, describe, randomShape, type Shape } from './grammar.ts'

export const SILENT = 'bench/worst/silent-worker.ts'

/** Every reader of what strangers send has something to read. */
const POLICIES = [
  { name: 'keys', limits: '1000000/1s', algorithm: 'fixed-window', by: 'header:x-key', anonymous: 'skip' },
  { name: 'query', limits: '1000000/1s', algorithm: 'fixed-window', by: 'query:key', anonymous: 'skip' },
  {
    name: 'login',
    limits: '1000000/1s',
    algorithm: 'fixed-window',
    match: 'POST /login, /v1/:a/:b/*',
    ignore_case: true,
  },
  {
    name: 'users',
    limits: '1000000/1s',
    algorithm: 'fixed-window',
    by: 'ip',
    match: 'GET /users/:id, DELETE /users/*',
  },
  { name: 'all', limits: '1000000/1s', algorithm: 'fixed-window', by: 'token', match: '*' },
]
const ORDINARY: Shape = {
  method: 'GET',
  target: '/users/42?key=a',
  headers: { Authorization: 'Bearer 0123456789abcdef', 'X-Key': 'k', Accept: '*/*', 'CF-Connecting-IP': '203.0.113.7' },
}

export interface WorstFigures {
  readonly gateway: string
  readonly request: string
  /** Answer of the gateway. */
  readonly status: number
  /** Processor time of workerd for one such request. */
  readonly processorUs: number
  /** The same for a Worker that answers at once. */
  readonly floorUs: number
}

export interface WorstBenchOptions {
  readonly upstream: Service
  readonly bundles: ReadonlyMap<string, Bundle>
  readonly seed: number
  /** Requests that are tried. */
  readonly candidates: number
  /** How often each is sent while looking. */
  readonly looks: number
  /** And those that were worst, to tell. */
  readonly repetitions: number
}

/** How many of the worst are measured again, in turns with an ordinary request. */
const FINALISTS = 5
/** Share of the candidates that are like the worst one so far, except for one part. */
const CLIMBING = 0.5
const TURNS = 5

/**
 * Looks for the request that costs a gateway the most, among generated ones: at random, and by changing the worst one.
 * @param source of the gateway, in `bundles`
 */
export async function measureWorst(
  source: string,
  { upstream, bundles, seed, candidates, looks, repetitions }: WorstBenchOptions,
): Promise<WorstFigures[]> {
  const [bundle, silentBundle] = [bundles.get(source), bundles.get(SILENT)]
  if (!bundle || !silentBundle) throw new Error(`no bundle of ${source}, or of ${SILENT}`)
  const random = seededRandom(seed)
  const bindings = { UPSTREAM_URL: upstream.url, POLICIES: JSON.stringify(POLICIES) }
  const gateway = await startDirectGateway({ bundle, bindings })
  const silent = await startDirectGateway({ bundle: silentBundle, bindings: {} })
  try {
    const cost = (shape: Shape, times: number) => costOf(gateway, shape, times)
    // Compiles what is hot.
    await cost(ORDINARY, repetitions)
    await costOf(silent, ORDINARY, repetitions)
    let found: { shape: Shape; us: number }[] = []
    for (let i = 0; i < candidates; i++) {
      const worst = found[Math.floor(random() * found.length)]
      const shape = worst && random() < CLIMBING ? changed(worst.shape, random) : randomShape(random)
      const us = (await cost(shape, looks))?.processorUs
      if (us === undefined) continue
      found = [...found, { shape, us }].sort((a, b) => b.us - a.us).slice(0, FINALISTS)
    }
    const rows = new Map<Shape, WorstFigures[]>(
      [ORDINARY, ...found.map(({ shape }) => shape)].map((shape) => [shape, []]),
    )
    for (let turn = 0; turn < TURNS; turn++) {
      for (const [shape, figures] of rows) {
        const measured = await cost(shape, repetitions / TURNS)
        const floor = await costOf(silent, shape, repetitions / TURNS)
        if (!measured || !floor) continue
        figures.push({ gateway: source, request: describe(shape), ...measured, floorUs: floor.processorUs })
      }
    }
    return [...rows.values()].map((figures) => middle(figures))
  } finally {
    await Promise.all([gateway.stop(), silent.stop()])
  }
}

function middle(figures: readonly WorstFigures[]): WorstFigures {
  const sorted = figures.toSorted((a, b) => a.processorUs - b.processorUs)
  return sorted[sorted.length >> 1] as WorstFigures
}

/** @returns undefined if workerd does not let it in */
async function costOf(
  { url, pid }: { readonly url: URL; readonly pid: number },
  shape: Shape,
  times: number,
): Promise<Pick<WorstFigures, 'status' | 'processorUs'> | undefined> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  try {
    const status = await send(url, shape, agent)
    // One more, so that the connection and what is compiled for it are not counted.
    if (status === undefined || (await send(url, shape, agent)) === undefined) return undefined
    const beforeUs = runUs(pid)
    for (let i = 0; i < times; i++) await send(url, shape, agent)
    return { status, processorUs: (runUs(pid) - beforeUs) / times }
  } finally {
    agent.destroy()
  }
}

/** @returns the status; undefined if the connection was closed, or workerd itself refused */
async function send(url: URL, { method, target, headers }: Shape, agent: Agent): Promise<number | undefined> {
  const { hostname, port } = url
  try {
    const client = request({ hostname, port, method, path: target, headers: headers as Record<string, string>, agent })
    client.end()
    const [response] = await once(client, 'response')
    response.resume()
    await once(response, 'end')
    const isOfWorkerd = response.statusCode >= 400 && response.headers['content-type'] === undefined
    return isOfWorkerd && method !== 'HEAD' ? undefined : response.statusCode
  } catch {
    return undefined
  }
}
