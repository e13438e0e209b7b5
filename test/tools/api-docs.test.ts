import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const ROOT = join(import.meta.dirname, '../..')

/** Text of each file in a folder, by its path there. */
async function textsIn(folder: string): Promise<Record<string, string>> {
  const files = await readdir(folder, { recursive: true, withFileTypes: true })
  const paths = files.filter((file) => file.isFile()).map(({ parentPath, name }) => join(parentPath, name))
  const texts = paths.map(async (path) => [path.slice(folder.length), await readFile(path, 'utf8')])
  return Object.fromEntries(await Promise.all(texts))
}

test('docs/api is what the docstrings say (else: npm run docs:api)', async () => {
  const out = await mkdtemp(join(tmpdir(), 'sluice-api-docs-'))
  try {
    await promisify(execFile)('node', ['tools/api-docs/main.ts', '--out', out], { cwd: ROOT })
    expect(await textsIn(join(ROOT, 'docs/api'))).toEqual(await textsIn(out))
  } finally {
    await rm(out, { recursive: true })
  }
})
