import { findChromium } from '../../tools/find-chromium.ts'
import { findPrometheus } from '../../tools/find-prometheus.ts'
import { findProxy } from '../../tools/find-proxies.ts'
import { findRedisServer } from '../../tools/find-redis-server.ts'
import { findLibfaketime } from './faults/find-libfaketime.ts'

/** What a part cannot do without: how it is called, and what finds or installs it, or throws a line that says why not. */
const NEEDS = {
  redis: { name: 'Redis', find: findRedisServer },
  chromium: { name: 'Chromium', find: findChromium },
  prometheus: { name: 'Prometheus', find: findPrometheus },
  libfaketime: { name: 'libfaketime', find: findLibfaketime },
  nginx: { name: 'nginx', find: () => findProxy('nginx') },
  caddy: { name: 'Caddy', find: () => findProxy('caddy') },
  haproxy: { name: 'HAProxy', find: () => findProxy('haproxy') },
  npm: { name: 'the npm registry', find: async () => {} },
} as const satisfies Record<string, { name: string; find: () => Promise<unknown> }>

export type Need = keyof typeof NEEDS

export interface Part {
  readonly name: string
  /** What it shows. */
  readonly shows: string
  readonly needs: readonly Need[]
  /** It is long and rarely fails: `--weekly` runs it, or its name. */
  readonly isWeekly?: boolean
  /** Arguments of `vitest run` in place of the project of this name. */
  readonly vitest?: readonly string[]
}

/** In the order in which they run. */
export const PARTS: readonly Part[] = [
  {
    name: 'slow',
    shows: 'promises that take seconds to see, and megabytes through WebSockets',
    needs: ['redis'],
    vitest: ['--config', 'vitest.config.ts', '--tags-filter=slow'],
  },
  {
    name: 'laws',
    shows: 'every law on twice the cases of npm test, and on new ones each time',
    needs: ['redis'],
    isWeekly: true,
    vitest: ['--config', 'vitest.config.ts', '--project', 'node', 'test/property', 'test/fuzz'],
  },
  { name: 'model', shows: 'every order of messages between isolates and Durable Objects', needs: [] },
  {
    name: 'simulation',
    shows: 'leases, stores and shedding over hours of virtual time',
    needs: ['redis'],
    isWeekly: true,
  },
  { name: 'exactness', shows: 'no window above its limit, under load at four points of presence', needs: ['redis'] },
  {
    name: 'histories',
    shows: 'calls under load, with faults, that are answered as if one came after the other',
    needs: ['redis'],
    isWeekly: true,
  },
  {
    name: 'soak',
    shows: 'counts that are exact and memory that suffices, under a minute of faults',
    needs: ['redis'],
    isWeekly: true,
  },
  {
    name: 'costs',
    shows:
      'tokens of a language model within their limit and what is in flight, and ten thousand streams that are charged',
    needs: ['redis'],
    isWeekly: true,
  },
  { name: 'numbers', shows: 'statistics that equal what the clients saw', needs: ['redis'], isWeekly: true },
  {
    name: 'shards',
    shows: 'counts that are exact over several databases, while some join, leave and die under load',
    needs: ['redis'],
    isWeekly: true,
  },
  { name: 'spread', shows: 'a block in effect everywhere, while Redis lives and after it died', needs: ['redis'] },
  { name: 'cluster', shows: 'limits in a Redis Cluster, over three masters of which one fails', needs: ['redis'] },
  { name: 'faults', shows: 'what is promised while things break', needs: ['redis', 'libfaketime'] },
  {
    name: 'dodging',
    shows: 'no spelling of a path or method that a framework serves uncharged',
    needs: ['redis', 'npm'],
  },
  { name: 'package', shows: 'the packed package and the examples, as others install them', needs: ['redis', 'npm'] },
  {
    name: 'frameworks',
    shows: 'the middleware in frameworks, edges and runtimes, as a table',
    needs: ['redis', 'npm'],
  },
  { name: 'dev', shows: 'npm run dev, as strangers use it', needs: ['redis'] },
  {
    name: 'dashboard',
    shows: 'the dashboard, the page of sluice simulate and other origins, in a browser',
    needs: ['redis', 'chromium'],
  },
  {
    name: 'proxies',
    shows: 'limits that hold behind nginx, Caddy and HAProxy, which ask two processes of sluice serve',
    needs: ['redis', 'nginx', 'caddy', 'haproxy'],
  },
  {
    name: 'guides',
    shows: 'the guides of five minutes, followed from the first line to the last',
    needs: ['redis', 'nginx', 'npm'],
    isWeekly: true,
  },
  { name: 'site', shows: 'the docs as a site, without a dead link', needs: ['npm'], isWeekly: true },
  { name: 'prometheus', shows: 'a real Prometheus that reads the metrics', needs: ['redis', 'prometheus'] },
]

/** The parts that have a project of their own in vitest.system.config.ts. */
export const PROJECTS = PARTS.filter(({ vitest }) => !vitest)

/** Finds or installs what a part needs. @returns a line for each thing that cannot be had */
export async function prepare({ needs }: Part): Promise<readonly string[]> {
  const missing: string[] = []
  for (const need of needs) {
    await NEEDS[need].find().catch((error: Error) => missing.push(`${NEEDS[need].name}: ${error.message}`))
  }
  return missing
}

/** What a part needs, in words. */
export function describeNeeds({ needs }: Part): string {
  return needs.length === 0 ? 'nothing' : needs.map((need) => NEEDS[need].name).join(', ')
}
