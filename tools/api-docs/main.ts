/**
 * Writes the reference of the package's entries into docs/api, from the types and docstrings of the source:
 * `npm run docs:api`, or with `-- --out <folder>` into another.
 */
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { installLocked } from '../install-locked.ts'

const { values } = parseArgs({
  options: { out: { type: 'string', default: join(import.meta.dirname, '../../docs/api') } },
})

installLocked(import.meta.dirname)
const typedoc = join(import.meta.dirname, 'node_modules/.bin/typedoc')
execFileSync(typedoc, ['--options', import.meta.dirname, '--logLevel', 'Error', '--out', values.out], {
  cwd: import.meta.dirname,
  stdio: 'inherit',
})
