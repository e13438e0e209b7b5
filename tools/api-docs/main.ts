/**
 * Writes docs/api: the reference of the package's entries, from the types and docstrings of the source, and that of
 * the command's JSON: `npm run docs:api`. With --check, it only tells whether docs/api is as it would write it.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { renderJsonPage } from '../command-page.ts'
import { installLocked } from '../install-locked.ts'

const API = join(import.meta.dirname, '../../docs/api')

installLocked(import.meta.dirname)
if (process.argv.includes('--check')) {
  const out = mkdtempSync(join(tmpdir(), 'sluice-api-docs-'))
  try {
    writeInto(out)
    if (!isDeepStrictEqual(textsIn(API), textsIn(out))) {
      console.error('docs/api is not what the docstrings say: npm run docs:api')
      process.exitCode = 1
    }
  } finally {
    rmSync(out, { recursive: true })
  }
} else writeInto(API)

function writeInto(folder: string): void {
  const typedoc = join(import.meta.dirname, 'node_modules/.bin/typedoc')
  execFileSync(typedoc, ['--options', import.meta.dirname, '--logLevel', 'Error', '--out', folder], {
    cwd: import.meta.dirname,
    stdio: 'inherit',
  })
  writeFileSync(join(folder, 'command-json.md'), renderJsonPage())
}

/** Text of each file in a folder, by its path there. */
function textsIn(folder: string): Map<string, string> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((file) => file.isFile())
  return new Map(
    files
      .map(({ parentPath, name }) => join(parentPath, name))
      .map((path) => [relative(folder, path), readFileSync(path, 'utf8')]),
  )
}
