import { globSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import { parse } from 'smol-toml'
import { describe, expect, test } from 'vitest'
import { SUBCOMMANDS } from '../../src/command/program.ts'
import { readCalendarLimits } from '../../src/core/options/calendar.ts'
import { loadConfig } from '../../src/http/config/load-config.ts'
import { VARIABLES } from '../../src/http/config/variables.ts'
import { readPage } from '../support/markdown.ts'

const ROOT = join(import.meta.dirname, '../..')
const PAGES = await Promise.all(
  globSync(['README.md', 'docs/*.md'], { cwd: ROOT }).map(async (path) => {
    const { code } = await readPage(join(ROOT, path))
    const inLanguage = (pattern: RegExp) =>
      code.filter(({ language }) => pattern.test(language)).map(({ text }) => text)
    return {
      path,
      examples: inLanguage(/^toml$/),
      imports: inLanguage(/^[jt]s$/).flatMap(findImports),
      commands: inLanguage(/^sh$/).flatMap(findCommands),
    }
  }),
)

/** What a piece of code imports from the package: `[entry, name]`. */
function findImports(code: string): readonly (readonly [string, string])[] {
  return [...code.matchAll(/^import \{ (.+) \} from '(sluice(?:\/\w+)?)'/gm)].flatMap(([, names = '', entry = '']) =>
    names.split(', ').map((name) => [entry, name] as const),
  )
}

/** Command lines of `sluice`, however it is started: its arguments. */
function findCommands(code: string): readonly string[] {
  return [...code.matchAll(/^(?:npm run sluice --|npx sluice|sluice) ([a-z].*)/gm)].map(([, line = '']) => line)
}

/** The variables in a piece of wrangler.toml; those at its top are what stands under `[vars]`. */
function variablesIn(toml: string): Record<string, unknown> {
  const { vars, ...rest } = parse(toml)
  const flat = Object.entries(rest).filter(([name]) => name === name.toUpperCase())
  return { ...Object.fromEntries(flat), ...(vars as object | undefined) }
}

describe.each(PAGES.filter(({ examples }) => examples.length > 0))('the configuration in $path', ({ examples }) => {
  const named = examples.map((toml) => ({ toml, line: toml.replaceAll('\n', '; ') }))
  test.each(named)('is taken: $line', ({ toml }) => {
    expectToBeTaken(variablesIn(toml))
  })
})

const ENTRIES: Readonly<Record<string, object>> = {
  sluice: await import('../../src/index.ts'),
  'sluice/fetch': await import('../../src/fetch.ts'),
  'sluice/gateway': await import('../../src/gateway.ts'),
  'sluice/hono': await import('../../src/hono.ts'),
  'sluice/node': await import('../../src/node.ts'),
  'sluice/objects': await import('../../src/objects.ts'),
  'sluice/outbound': await import('../../src/outbound.ts'),
}

test.each(PAGES.filter(({ imports }) => imports.length > 0))('the package has what $path imports', ({ imports }) => {
  expect(imports.filter(([entry, name]) => !Object.hasOwn(ENTRIES[entry] ?? {}, name))).toEqual([])
})

test.each(PAGES.filter(({ commands }) => commands.length > 0))('sluice takes the options in $path', ({ commands }) => {
  const unknown = commands.flatMap((line) => {
    const [name = '', ...words] = line.split(/ #| [|<>] /, 1)[0]?.split(/\s+/) ?? []
    const known = SUBCOMMANDS.find((subcommand) => subcommand.name === name)?.build(() => {}).options
    const isKnown = (word: string) => known?.some(({ long }) => long === word.split('=', 1)[0])
    return known
      ? words.filter((word) => word.startsWith('--') && !isKnown(word)).map((word) => `${name} ${word}`)
      : name
  })
  expect(unknown).toEqual([])
})

test('README fits on 180 lines of 110 characters', async () => {
  const lines = (await readFile(join(ROOT, 'README.md'), 'utf8')).trimEnd().split('\n')
  expect(lines.length).toBeLessThanOrEqual(180)
  expect(lines.filter(({ length }) => length > 110)).toEqual([])
})

describe('the pages that people read', async () => {
  const pages = await Promise.all(
    globSync(['README.md', 'docs/*.md', 'docs/guides/*.md'], { cwd: ROOT }).map(async (path) => {
      const text = await readFile(join(ROOT, path), 'utf8')
      // Figures that a run writes are not counted.
      const words = countWords(text.replaceAll(/^<!-- figures.*?^<!-- end[^\n]*$/gms, ''))
      return { path, words, text: text.replaceAll(/^```.*?^```$/gms, '') }
    }),
  )

  test('have 32,000 words in all, and 1,800 each', () => {
    expect(pages.reduce((sum, { words }) => sum + words, 0)).toBeLessThanOrEqual(32_000)
    expect(pages.filter(({ words }) => words > 1_800).map(({ path, words }) => `${path}: ${words}`)).toEqual([])
  })

  test.each(pages)('$path has short cells', ({ text }) => {
    const rows = text.split('\n').filter((line) => line.startsWith('|'))
    const cells = rows.flatMap((row) => row.split(/(?<!\\)\|/).slice(1, -1))
    expect(cells.filter((cell) => countWords(cell) > 25)).toEqual([])
  })
})

function countWords(text: string): number {
  return text.split(/\s+/).filter(Boolean).length
}

/** What a file says with all that it only shows in comments. */
async function uncommented(file: string): Promise<string> {
  const text = await readFile(join(ROOT, file), 'utf8')
  return text.replaceAll(/^# (?=\[\[|\w+ ?= ?\S)/gm, '')
}

test('the configuration in wrangler.toml is taken, with what it has in comments', async () => {
  expectToBeTaken(variablesIn(await uncommented('wrangler.toml')))
})

test('the variables in .dev.vars.example are taken, with those that it has in comments', async () => {
  const variables = Object.entries(parseEnv(await uncommented('.dev.vars.example')))
  // A secret that is empty counts as not set.
  expectToBeTaken(Object.fromEntries(variables.filter(([, value]) => value !== '')))
})

function expectToBeTaken(variables: Record<string, unknown>): void {
  expect(VARIABLES).toEqual(expect.arrayContaining(Object.keys(variables)))
  const database = { UPSTASH_REDIS_REST_URL: 'https://eu1-x.upstash.io', UPSTASH_REDIS_REST_TOKEN: 'token' }
  const stores = { ...database, LIMITS: { idFromName() {} } }
  expect(() =>
    loadConfig(
      { UPSTREAM_URL: 'https://api.example.com', RATE_LIMITS: '60/1m', ...stores, ...variables },
      { readCalendarLimits },
    ),
  ).not.toThrow()
}
