import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parse } from 'smol-toml'
import { describe, expect, test } from 'vitest'
import { loadConfig } from '../../src/config/load-config.ts'
import { policyKeys as policyEntries } from '../../src/config/policy-keys.ts'
import { environment, VARIABLES } from '../../src/config/variables.ts'
import { type Cell, readPage } from '../support/markdown.ts'

const ROOT = join(import.meta.dirname, '../..')
const UPSTREAM_URL = 'https://api.example.com'

const { tables } = await readPage(join(ROOT, 'docs/configuration.md'))

/** The rows of the table whose first column has this title: names, and what the column of defaults says of them. */
function documented(title: string): readonly { readonly name: string; readonly byDefault: Cell }[] {
  const table = tables.find(({ header }) => header[0] === title)
  if (!table) throw new Error(`docs/configuration.md has no table of each ${title}`)
  return table.rows.flatMap(([names, byDefault]) =>
    (names?.code ?? []).map((name) => ({ name, byDefault: byDefault as Cell })),
  )
}

const sorted = (names: Iterable<string>) => [...names].toSorted()
const namesOf = (rows: readonly { readonly name: string }[]) => sorted(rows.map(({ name }) => name))

/** Names that a file sets, also those in a line that is commented out; one may be there twice, as an example. */
async function namesIn(file: string, pattern: RegExp): Promise<string[]> {
  const text = await readFile(join(ROOT, file), 'utf8')
  return sorted(new Set([...text.matchAll(pattern)].flatMap((match) => match.slice(1).filter(Boolean))))
}

describe('the variables', () => {
  const expected = sorted(VARIABLES)

  test('are those of the schema', () => {
    expect(sorted(Object.keys(environment.entries))).toEqual(expected)
  })

  test('are those of the table in docs/configuration.md', () => {
    expect(namesOf(documented('variable'))).toEqual(expected)
  })

  test('are those in wrangler.toml, some of them in comments', async () => {
    const names = await namesIn(
      'wrangler.toml',
      /^(?:# )?(?:\[\[vars\.)?([A-Z][A-Z\d_]+)(?: = |\]\])|\b([A-Z]+(?:_[A-Z]+)+)\b/gm,
    )
    expect(names).toEqual(expected)
  })

  test('are those in .dev.vars.example, some of them in comments', async () => {
    expect(await namesIn('.dev.vars.example', /^(?:# )?([A-Z][A-Z\d_]+)=/gm)).toEqual(expected)
  })

  test('that a deploy button asks for are described in package.json', async () => {
    const { vars } = parse(await readFile(join(ROOT, 'wrangler.toml'), 'utf8')) as { vars: object }
    const secrets = await namesIn('.dev.vars.example', /^([A-Z][A-Z\d_]+)=/gm)
    const { cloudflare } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))
    expect(sorted(Object.keys(cloudflare.bindings))).toEqual(sorted([...Object.keys(vars), ...secrets]))
    for (const { description } of Object.values<{ description: string }>(cloudflare.bindings)) {
      expect(description).toMatch(/^[A-Z].*\.$/)
    }
  })

  const defaults = documented('variable').filter(({ byDefault }) => byDefault.isCode)
  test.each(defaults)('$name is by default what docs/configuration.md says', ({ name, byDefault }) => {
    expect(loadConfig({ UPSTREAM_URL, [name]: byDefault.code[0] })).toEqual(loadConfig({ UPSTREAM_URL }))
  })
})

describe('the keys of a policy', () => {
  const rows = documented('key')

  test('are those of the table in docs/configuration.md', () => {
    expect(namesOf(rows)).toEqual(sorted(Object.keys(policyEntries)))
  })

  // The name of a variable stands for its value.
  const isOwn = ({ byDefault: { isCode, code } }: (typeof rows)[number]) =>
    isCode && !(VARIABLES as readonly string[]).includes(code[0] ?? '')
  test.each(rows.filter(isOwn))('$name is by default what docs/configuration.md says', ({ name, byDefault }) => {
    const text = byDefault.code[0] ?? ''
    const value = { true: true, false: false }[text] ?? text
    const besides: Record<string, object> = {
      deadline: { limits: '5', algorithm: 'concurrency' },
      after: { limits: '5/1m', block: '1m' },
    }
    const plain = besides[name] ?? { limits: '5/1m' }
    const load = (table: object) => loadConfig({ UPSTREAM_URL, POLICIES: [{ name: 'p', ...plain, ...table }] })
    expect(load({ [name]: value })).toEqual(load({}))
  })
})
