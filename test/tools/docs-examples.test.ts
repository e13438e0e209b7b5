import { globSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import { parse } from 'smol-toml'
import { describe, expect, test } from 'vitest'
import { loadConfig } from '../../src/config/load-config.ts'
import { VARIABLES } from '../../src/config/variables.ts'
import { readPage } from '../support/markdown.ts'

const ROOT = join(import.meta.dirname, '../..')
const PAGES = await Promise.all(
  globSync(['README.md', 'docs/*.md'], { cwd: ROOT }).map(async (path) => {
    const { code } = await readPage(join(ROOT, path))
    return { path, examples: code.filter(({ language }) => language === 'toml').map(({ text }) => text) }
  }),
)

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
    loadConfig({ UPSTREAM_URL: 'https://api.example.com', RATE_LIMITS: '60/1m', ...stores, ...variables }),
  ).not.toThrow()
}
