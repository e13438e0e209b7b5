/** Builds the docs as a site into dist/site: `npm run site`; `npm run site -- dev` serves them, and follows changes. */
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { installLocked } from './install-locked.ts'

const ROOT = join(import.meta.dirname, '..')
const FOLDER = join(ROOT, 'docs/.vitepress')
const [command = 'build', ...args] = process.argv.slice(2)

installLocked(FOLDER)
const program = join(FOLDER, 'node_modules/vitepress/bin/vitepress.js')
execFileSync(process.execPath, [program, command, join(ROOT, 'docs'), ...args], { stdio: 'inherit' })
