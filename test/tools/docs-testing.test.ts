/** Each example of docs/testing.md, run as it stands, by the runner that it imports. */
import { execFile } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, describe, inject, test, vi } from 'vitest'
import { readPage } from '../support/markdown.ts'
import { ofNode } from '../support/of-node.ts'

const ROOT = join(import.meta.dirname, '../..')
const { code } = await readPage(join(ROOT, 'docs/testing.md'))

// Inside of the repository, so that the examples find what it has installed.
mkdirSync(join(ROOT, 'build'), { recursive: true })
const folder = await mkdtemp(join(ROOT, 'build/docs-testing-'))
afterAll(() => rmSync(folder, { recursive: true }))
vi.stubEnv('REDIS_URL', `redis://127.0.0.1:${inject('redisPort')}`)

const examples = code.map(({ text }, index) => {
  const file = join(folder, `example-${index}.mjs`)
  // The package is what it is made of.
  const ofSources = (_: string, entry = '/index') => `from '${pathToFileURL(join(ROOT, `src${entry}.ts`))}'`
  writeFileSync(file, text.replace(/from 'sluice(\/\w+)?'/g, ofSources))
  return { file, title: /^test\('(.*)', /m.exec(text)?.[1] ?? text, isForNode: text.includes("'node:test'") }
})

// Its own tests and hooks are those of this run.
for (const { file, title } of examples.filter(({ isForNode }) => !isForNode))
  describe(`the example "${title}"`, async () => void (await import(pathToFileURL(file).href)))

test.each(examples.filter(({ isForNode }) => isForNode))('node:test passes "$title"', async ({ file }) => {
  await promisify(execFile)(process.execPath, ['--test', file], { env: { ...ofNode() } as NodeJS.ProcessEnv })
})
