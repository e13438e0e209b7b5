/**
 * Changes the Redis scripts a little, one change at a time, and counts the changes that no test of the contract notices:
 * `npm run test:mutation:lua`, or with the names of chunks. Stryker knows no Lua; these are its operators of arithmetic,
 * comparison and logic. Prints the score of each chunk, and each survivor.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, globSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '../..')
const OPERATORS: readonly (readonly [find: RegExp, replacement: string])[] = [
  [/ < /g, ' <= '],
  [/ <= /g, ' < '],
  [/ > /g, ' >= '],
  [/ >= /g, ' > '],
  [/ == /g, ' ~= '],
  [/ ~= /g, ' == '],
  [/ \+ /g, ' - '],
  [/ - /g, ' + '],
  [/ and /g, ' or '],
  [/ or /g, ' and '],
  [/\bmath\.max\(/g, 'math.min('],
  [/\bmath\.min\(/g, 'math.max('],
  [/\bmath\.ceil\(/g, 'math.floor('],
  [/\bmath\.floor\(/g, 'math.ceil('],
]
/** A script that never ends blocks its Redis: the run is killed, and the change found. */
const BOUND_MS = 120_000

const copy = mkdtempSync(join(tmpdir(), 'sluice-mutated-lua-'))
process.once('exit', () => rmSync(copy, { recursive: true, force: true }))
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))
const files = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], { cwd: ROOT, encoding: 'utf8' })
for (const file of files.trim().split('\n')) cpSync(join(ROOT, file), join(copy, file))
symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'))

const wanted = process.argv.slice(2)
if (!isGreen()) throw new Error('without any change, tests fail')
const total = { killed: 0, survived: 0 }
for (const file of globSync('lua/*.lua', { cwd: ROOT }).toSorted()) {
  if (wanted.length === 0 || wanted.some((name) => file === `lua/${name}.lua`)) mutate(file)
}
console.log(`\nlua: ${formatScore(total)}`)

function mutate(file: string): void {
  const path = join(copy, file)
  const text = readFileSync(path, 'utf8')
  const lines = text.split('\n')
  const count = { killed: 0, survived: 0 }
  const survivors: string[] = []
  for (const [at, line] of lines.entries()) {
    // A comment, to its end.
    if (line.trim().startsWith('--')) continue
    for (const [find, replacement] of OPERATORS) {
      for (const { index } of line.matchAll(find)) {
        const changed = line.slice(0, index) + line.slice(index).replace(new RegExp(find.source), replacement)
        writeFileSync(path, lines.with(at, changed).join('\n'))
        const found = !isGreen()
        count[found ? 'killed' : 'survived']++
        if (!found) survivors.push(`  ${at + 1}: ${changed.trim()}`)
      }
    }
  }
  writeFileSync(path, text)
  total.killed += count.killed
  total.survived += count.survived
  console.log([`${file}: ${formatScore(count)}`, ...survivors].join('\n'))
}

function isGreen(): boolean {
  execFileSync(process.execPath, ['tools/embed-lua.ts'], { cwd: copy })
  const args = ['run', '--config', 'test/mutation/vitest.config.ts', '--root', '.', '--bail=1']
  const env = { ...process.env, MUTATED_FOLDER: 'lua' }
  return spawnSync('vitest', args, { cwd: copy, env, stdio: 'ignore', timeout: BOUND_MS }).status === 0
}

function formatScore({ killed, survived }: typeof total): string {
  return `${killed} of ${killed + survived} killed, ${((100 * killed) / Math.max(1, killed + survived)).toFixed(1)}%`
}
