/**
 * Writes docs/api: the reference of the package's entries, from the types and docstrings of the source, and that of
 * the command's JSON: `npm run docs:api`. With --check, it only says whether docs/api is as it would write it.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { renderJsonPage } from '../command-page.ts'
import { installLocked } from '../install-locked.ts'

const API = join(import.meta.dirname, '../../docs/api')

installLocked(import.meta.dirname)
const isChecked = process.argv.includes('--check')
const folder = isChecked ? mkdtempSync(join(tmpdir(), 'sluice-api-docs-')) : API
try {
  writeInto(folder)
  if (isChecked && spawnSync('diff', ['-r', API, folder]).status !== 0) {
    console.error('docs/api is not what the docstrings say: npm run docs:api')
    process.exitCode = 1
  }
} finally {
  if (isChecked) rmSync(folder, { recursive: true })
}

function writeInto(folder: string): void {
  const typedoc = join(import.meta.dirname, 'node_modules/.bin/typedoc')
  execFileSync(typedoc, ['--options', import.meta.dirname, '--logLevel', 'Error', '--out', folder], {
    cwd: import.meta.dirname,
    stdio: 'inherit',
  })
  writeFileSync(join(folder, 'command-json.md'), renderJsonPage())
}
