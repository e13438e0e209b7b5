import { globSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { expect, test } from 'vitest'
import { SUBCOMMANDS } from '../../src/command/program.ts'
import { OPERATIONS } from '../../src/gateway/admin/operations.ts'

const ROOT = join(import.meta.dirname, '../..')

/** Reads the exports of the modules of a folder, by name. */
async function readExports(pattern: string): Promise<ReadonlyMap<string, unknown>> {
  const modules = await Promise.all(globSync(join(ROOT, pattern)).map((file) => import(file)))
  return new Map(modules.flatMap((module) => Object.entries(module)))
}

test.each([
  ['src/gateway/admin/operations/*.ts', 'path', OPERATIONS],
  ['src/command/*.ts', 'build', SUBCOMMANDS],
] as const)('all that %s defines is listed', async (pattern, member, listed) => {
  const defined = [...(await readExports(pattern))].filter(
    ([, value]) => typeof value === 'object' && value !== null && member in value,
  )
  expect(defined.length).toBeGreaterThan(5)
  expect(defined.filter(([, value]) => !listed.some((each) => each === value)).map(([name]) => name)).toEqual([])
})

test('each entry is exported by the package, and described in docs/api', async () => {
  const entries = globSync(join(ROOT, 'src/*.ts')).map((file) => basename(file, '.ts'))
  const { exports, bin } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))
  const { entryPoints } = JSON.parse(await readFile(join(ROOT, 'tools/api-docs/typedoc.json'), 'utf8'))
  const exported = Object.values<{ default?: string } | string>({ ...exports, bin: bin.sluice }).map((each) =>
    basename(typeof each === 'string' ? each : (each.default ?? ''), '.js'),
  )
  expect(entries.filter((entry) => entry !== 'cli' && !exported.includes(entry))).toEqual([])
  const described = (entryPoints as readonly string[]).map((file) => basename(file, '.ts'))
  expect(entries.filter((entry) => !['cli', 'launcher'].includes(entry) && !described.includes(entry))).toEqual([])
})
