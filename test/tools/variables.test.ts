import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { loadConfig } from '../../src/http/config/load-config.ts'
import { policyKeys } from '../../src/http/config/policy-keys.ts'
import { VARIABLES } from '../../src/http/config/variables.ts'
import { renderSettings } from '../../tools/settings-docs.ts'
import { type Cell, readPage } from '../support/markdown.ts'

const ROOT = join(import.meta.dirname, '../..')
const UPSTREAM_URL = 'https://api.example.com'

/** The rows of a page's table whose first column has this title: names, and what the column of defaults says of them. */
async function readSettings(
  page: string,
  title: string,
): Promise<readonly { readonly name: string; readonly byDefault: Cell }[]> {
  const { tables } = await readPage(join(ROOT, page))
  const table = tables.find(({ header }) => header[0] === title)
  if (!table) throw new Error(`${page} has no table of each ${title}`)
  return table.rows.flatMap(([names, byDefault]) =>
    (names?.code ?? []).map((name) => ({ name, byDefault: byDefault as Cell })),
  )
}

test('npm run settings has written what the tables of variables and keys say', async () => {
  for (const [file, text] of renderSettings())
    expect([file, await readFile(join(ROOT, file), 'utf8')]).toEqual([file, text])
})

test.each([
  [['load-config.ts', 'shards.ts'], VARIABLES],
  [['policies.ts'], Object.keys(policyKeys)],
] as const)('%s read all settings that there are', async (files, names) => {
  const sources = await Promise.all(files.map((file) => readFile(join(ROOT, 'src/http/config', file), 'utf8')))
  const source = sources.join('')
  expect(names.filter((name) => !new RegExp(`(?<![\\w'])${name}\\b`).test(source))).toEqual([])
})

describe('the variables', async () => {
  const defaults = (await readSettings('docs/variables.md', 'variable')).filter(({ byDefault }) => byDefault.isCode)
  test.each(defaults)('$name is by default what docs/variables.md says', ({ name, byDefault }) => {
    expect(loadConfig({ UPSTREAM_URL, [name]: byDefault.code[0] })).toEqual(loadConfig({ UPSTREAM_URL }))
  })
})

describe('the keys of a policy', async () => {
  const rows = await readSettings('docs/policies.md', 'key')

  // The name of a variable stands for its value.
  const isOwn = ({ byDefault: { isCode, code } }: (typeof rows)[number]) =>
    isCode && !(VARIABLES as readonly string[]).includes(code[0] ?? '')
  test.each(rows.filter(isOwn))('$name is by default what docs/policies.md says', ({ name, byDefault }) => {
    const text = byDefault.code[0] ?? ''
    const value = { true: true, false: false }[text] ?? text
    const besides: Record<string, object> = {
      slot_ttl: { limits: '5', algorithm: 'concurrency' },
      penalty_after: { limits: '5/1m', penalty: '1m' },
    }
    const plain = besides[name] ?? { limits: '5/1m' }
    const load = (table: object) => loadConfig({ UPSTREAM_URL, POLICIES: [{ name: 'p', ...plain, ...table }] })
    expect(load({ [name]: value })).toEqual(load({}))
  })
})
