/**
 * Writes docs/api: the reference of the package's entries, from the types and docstrings of the source:
 * `npm run docs:api`. With --check, it only says whether docs/api is as it would write it.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { installLocked } from '../install-locked.ts'

const API = join(import.meta.dirname, '../../docs/api')
const JSON_PAGE = 'command-json.md'
/** This page is written by hand. typedoc empties the folder. */
const jsonPage = readFileSync(join(API, JSON_PAGE))

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
  writeFileSync(join(folder, JSON_PAGE), jsonPage)
}
