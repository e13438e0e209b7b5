/** Versions that stand beside frameworks in the docs are those that the matrix of frameworks installs. */
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const ROOT = join(import.meta.dirname, '../..')
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')

function readDependencies(path: string): Record<string, string> {
  const { dependencies, devDependencies } = JSON.parse(read(path))
  return { ...dependencies, ...devDependencies }
}

const PINNED = readDependencies('test/system/frameworks/package.json')
const RUNTIMES = readDependencies('test/system/package/runtimes/package.json')
const { miniflare } = readDependencies('package.json')

/** Versions that are tried, by what the docs call it. */
const TRIED: Readonly<Record<string, readonly (string | undefined)[]>> = {
  '@hono/node-server': [PINNED['@hono/node-server'], PINNED['hono-node-server-least']],
  Astro: [PINNED.astro],
  Bun: [RUNTIMES.bun],
  Deno: [RUNTIMES.deno],
  Elysia: [PINNED.elysia],
  Express: [PINNED.express, PINNED.express4],
  Fastify: [PINNED.fastify, PINNED.fastify4],
  Hono: [PINNED.hono, PINNED['hono-least']],
  Koa: [PINNED.koa],
  NestJS: [PINNED['@nestjs/core']],
  'Next.js': [PINNED.next],
  Nitro: [PINNED.nitro, PINNED.nitropack],
  SvelteKit: [PINNED['@sveltejs/kit']],
  TypeScript: [PINNED.typescript],
  'edge-runtime': [PINNED['edge-runtime']],
  miniflare: [miniflare],
  tRPC: [PINNED['@trpc/server']],
}

const NAMES = Object.keys(TRIED).map((name) => name.replaceAll('.', '\\.'))
/** A name, perhaps as a link or in other marks, and its versions: `Nitro (3.0)`, `Express 4 and 5`, `Hono from 4.6`. */
const VERSIONS = new RegExp(
  `(?<![\\w/@-])(${NAMES.join('|')})(?:\\]\\([^)]*\\))?[*\`]* (?:\\(|from )?(\\d[\\d.]*\\d|\\d)(?: and (\\d+))?`,
  'g',
)

const isTried = (name: string, version: string) =>
  TRIED[name]?.some((pinned) => `${pinned?.replace(/^npm:.*@/, '')}.`.startsWith(`${version}.`)) === true

function findUntried(text: string): readonly string[] {
  return [...text.matchAll(VERSIONS)].flatMap(([, name = '', ...versions]) =>
    versions.filter((version) => version && !isTried(name, version)).map((version) => `${name} ${version}`),
  )
}

test.each(['docs/middleware.md', ...globSync('docs/guides/*.md', { cwd: ROOT })])(
  'each version in %s is one that the matrix tries',
  (path) => {
    expect(findUntried(read(path))).toEqual([])
  },
)

test('versions that the matrix does not try are found', () => {
  const text = 'Express 4 and 6, **NestJS** (11), [Hono](https://hono.dev) from 4.5 and Nitro (3.0), Koa 3'
  expect(findUntried(text)).toEqual(['Express 6', 'NestJS 11', 'Hono 4.5'])
})

test('each place of the table in docs/middleware.md has a version, or says that it was not tried', () => {
  const [, rows = ''] = read('docs/middleware.md').split(/^\| place .*\n\| -.*\n/m)
  const places = [...(rows.split('\n\n', 1)[0]?.matchAll(/^\| (.+?) +\|/gm) ?? [])].map(([, place = '']) => place)
  expect(places.length).toBeGreaterThan(7)
  const named = places.flatMap((place) => place.split(', ')).filter((name) => name !== 'on Node')
  expect(named.filter((name) => !/ \((?:not tried|(?:[\w-]+ )?\d[\d.]*)\)/.test(name))).toEqual([])
})
