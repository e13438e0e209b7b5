import { globSync } from 'node:fs'
import { join } from 'node:path'
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
    const variables = variablesIn(toml)
    expect(VARIABLES).toEqual(expect.arrayContaining(Object.keys(variables)))
    expect(() =>
      loadConfig({ UPSTREAM_URL: 'https://api.example.com', RATE_LIMITS: '60/1m', ...variables }),
    ).not.toThrow()
  })
})
