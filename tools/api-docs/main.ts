/**
 * Writes docs/api: the reference of the package's entries, from the types and docstrings of the source, and that of
 * the command's JSON: `npm run docs:api`. With --check, it only tells whether docs/api is as it would write it.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { renderJsonPage } from '../command-page.ts'
import { installLocked } from '../install-locked.ts'

const API = join(import.meta.dirname, '../../docs/api')

installLocked(import.meta.dirname)
if (process.argv.includes('--check')) {
  const out = mkdtempSync(join(tmpdir(), 'sluice-api-docs-'))
  try {
    writeInto(out)
    if (spawnSync('diff', ['-r', API, out]).status !== 0) {
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
