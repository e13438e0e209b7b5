/**
 * What clients make of the limits of servers, in virtual time: models of servers in worlds that are drawn from a seed,
 * which say what was used before the start, how calls and refusals travel, who starts again, and who else is there.
 * Of each server it prints the worst of its worlds: the calls done of those possible, the share that the server refused,
 * and the longest needless wait.
 *
 *     npm run bench:outbound -- [--only <server>] [--worlds 12] [--seed 1] [--peers] [--each]
 *
 * `--each` prints each world. Peers need `npm ci --prefix bench`.
 */
import { parseArgs } from 'node:util'
import { createOwnClient } from '../test/support/outbound/own-client.ts'
import { PROVIDERS, type Provider } from '../test/support/outbound/providers.ts'
import { type CreateClient, type Figures, runLoad } from '../test/support/outbound/run-load.ts'
import { createRandom, drawWorld, type World } from '../test/support/outbound/worlds.ts'
import { VirtualClock } from '../test/support/virtual-clock.ts'

const { values } = parseArgs({
  options: {
    only: { type: 'string', default: '' },
    worlds: { type: 'string', default: '12' },
    seed: { type: 'string', default: '1' },
    peers: { type: 'boolean', default: false },
    each: { type: 'boolean', default: false },
  },
})
const seed = Number(values.seed)

interface PeerModule {
  readonly PEERS: Readonly<Record<string, CreateClient>>
  replaceTime(clock: VirtualClock): () => void
}

/** A client, in worlds that it has for itself or shares. */
interface Column {
  readonly heading: string
  readonly isShared: boolean
  run(provider: Provider, world: World): Promise<Figures>
}

const columns: Column[] = ['alone', 'shared'].map((kind) => ({
  heading: kind,
  isShared: kind === 'shared',
  run: (provider, world) => runLoad(provider, createOwnClient, world, seed),
}))
if (values.peers) columns.push(...(await listPeers()))
console.log('Done, refused by the server, longest needless wait\n')
printRow(['server', ...columns.map(({ heading }) => heading)])
printRow(Array.from({ length: columns.length + 1 }, () => '---'))
for (const provider of PROVIDERS.filter(({ name }) => name.includes(values.only))) {
  const random = createRandom(seed)
  // Every third world is shared with another process or another user.
  const worlds = Array.from({ length: Number(values.worlds) }, (_, index) => drawWorld(random, index % 3 === 2))
  const cells: string[] = []
  for (const { heading, isShared, run } of columns) {
    const figuresOfAll: Figures[] = []
    for (const world of worlds.filter((_, index) => (index % 3 === 2) === isShared)) {
      const figures = await run(...prepare(provider, world))
      if (values.each) console.error(`${provider.name}, ${heading}: ${formatFigures(figures)} ${JSON.stringify(world)}`)
      figuresOfAll.push(figures)
    }
    cells.push(formatFigures(findWorst(figuresOfAll)))
  }
  printRow([provider.name, ...cells])
}

/** Peers have the worlds alone: none of them would notice others. */
async function listPeers(): Promise<Column[]> {
  const { PEERS, replaceTime }: PeerModule = await import(new URL('peers/outbound-clients.ts', import.meta.url).href)
  return Object.entries(PEERS).map(([heading, createClient]) => ({
    heading,
    isShared: false,
    async run(provider, world) {
      const clock = new VirtualClock()
      const restore = replaceTime(clock)
      try {
        return await runLoad(provider, createClient, world, seed, clock)
      } finally {
        restore()
      }
    },
  }))
}

function printRow(cells: readonly string[]): void {
  console.log(`| ${cells.join(' | ')} |`)
}

/** A limiter of one's own has counted in its store what was used before the start. */
function prepare(provider: Provider, world: World): [Provider, World] {
  if (provider.evidence !== 'limiter') return [provider, world]
  return [
    { ...provider, store: 'shared' },
    { ...world, usedShare: 0, otherShare: 0 },
  ]
}

function findWorst(figures: readonly Figures[]): Pick<Figures, 'done' | 'refused' | 'needlessMs'> {
  return {
    done: Math.min(...figures.map(({ done }) => done)),
    refused: Math.max(...figures.map(({ refused }) => refused)),
    needlessMs: Math.max(...figures.map(({ needlessMs }) => needlessMs)),
  }
}

function formatFigures({ done, refused, needlessMs }: Pick<Figures, 'done' | 'refused' | 'needlessMs'>): string {
  return `${done.toFixed(2)}, ${(refused * 100).toFixed(1)}%, ${(needlessMs / 1_000).toFixed(1)}s`
}
