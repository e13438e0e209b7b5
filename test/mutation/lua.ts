/**
 * Changes the Redis scripts a little, one change at a time, and counts the changes that no test notices:
 * `npm run test:mutation:lua`, or with the names of chunks; `--sample 2/5` takes the second of every five only. Stryker knows no Lua; these are its operators of arithmetic,
 * comparison, logic, conditions and literals. Prints the score of each chunk, and each survivor that is not named in
 * `survivors.ts` with a reason.
 */
import { execFileSync } from 'node:child_process'
import { cpSync, globSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { createVitest, type Vitest } from 'vitest/node'
import { TESTS } from './folders.ts'
import { addScore, createScore, formatScore } from './score.ts'
import { isNamed } from './survivors.ts'

const ROOT = join(import.meta.dirname, '../..')
const OPERATORS: readonly (readonly [find: RegExp, replacement: string])[] = [
  [/ < /g, ' <= '],
  [/ <= /g, ' < '],
  [/ > /g, ' >= '],
  [/ >= /g, ' > '],
  [/ == /g, ' ~= '],
  [/ ~= /g, ' == '],
  // `+ 0` makes a number of a text, as `- 0` would.
  [/ \+ (?!0\b)/g, ' - '],
  [/ - /g, ' + '],
  [/ \* /g, ' / '],
  [/ \/ /g, ' * '],
  [/ % /g, ' * '],
  [/ and /g, ' or '],
  [/ or /g, ' and '],
  [/\bnot /g, ''],
  [/\btrue\b/g, 'false'],
  [/\bfalse\b/g, 'true'],
  [/\bif .* then\b/g, 'if true then'],
  [/\bif .* then\b/g, 'if false then'],
  [/\belseif .* then\b/g, 'elseif true then'],
  [/\belseif .* then\b/g, 'elseif false then'],
  [/\bmath\.max\(/g, 'math.min('],
  [/\bmath\.min\(/g, 'math.max('],
  [/\bmath\.ceil\(/g, 'math.floor('],
  [/\bmath\.floor\(/g, 'math.ceil('],
]
/** A script that never ends blocks its Redis, which is then replaced. No run without one takes as long. */
const BLOCKED_MS = 60_000

const copy = mkdtempSync(join(tmpdir(), 'sluice-mutated-lua-'))
process.once('exit', () => rmSync(copy, { recursive: true, force: true }))
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))
const files = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], { cwd: ROOT, encoding: 'utf8' })
for (const file of files.trim().split('\n')) cpSync(join(ROOT, file), join(copy, file))
symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'))
process.chdir(copy)

const { values, positionals: wanted } = parseArgs({
  options: { sample: { type: 'string', default: '1/1' } },
  allowPositionals: true,
})
const [part = 1, parts = 1] = values.sample.split('/').map(Number)
const total = createScore()
for (const folder of Object.keys(TESTS).filter((name) => name.startsWith('lua'))) {
  const chunks = globSync('*.lua', { cwd: join(ROOT, folder) }).map((chunk) => `${folder}/${chunk}`)
  const chosen = chunks.filter((file) => wanted.length === 0 || wanted.some((name) => file === `lua/${name}.lua`))
  if (chosen.length > 0) await mutateFolder(folder, chosen.toSorted())
}
console.log(`\nlua: ${formatScore(total)}`)
process.exit()

async function mutateFolder(folder: string, chosen: readonly string[]): Promise<void> {
  process.env.MUTATED_FOLDER = folder
  let vitest = await openVitest()
  if (!(await isGreen(vitest))) throw new Error('without any change, tests fail')
  for (const file of chosen) {
    const text = readFileSync(file, 'utf8')
    const score = createScore()
    const survivors: string[] = []
    for (const { line, before, changed, mutated } of listMutants(text)) {
      if (score.all++ % parts !== part - 1) continue
      writeFileSync(file, mutated)
      const startedAt = performance.now()
      const survives = await isGreen(vitest)
      if (!survives) score.killed++
      else if (isNamed(file, before, changed)) score.named++
      else survivors.push(`  ${line}: ${changed}`)
      if (performance.now() - startedAt > BLOCKED_MS) {
        await vitest.close()
        vitest = await openVitest()
      }
    }
    writeFileSync(file, text)
    score.survived = survivors.length
    addScore(total, score)
    console.log([`${file}: ${formatScore(score)}`, ...survivors].join('\n'))
  }
  await vitest.close()
}

function* listMutants(text: string) {
  const lines = text.split('\n')
  for (const [at, line] of lines.entries()) {
    const [code = ''] = line.split(/(?:^| )--/)
    for (const [find, replacement] of OPERATORS) {
      for (const { index, 0: found } of code.matchAll(find)) {
        const changed = line.slice(0, index) + replacement + line.slice(index + found.length)
        if (changed === line) continue
        const mutated = lines.with(at, changed).join('\n')
        yield { line: at + 1, before: line.trim(), changed: changed.trim(), mutated }
      }
    }
  }
}

/** Its services, a real Redis among them, live as long as it does; the modules of a run do not. */
function openVitest(): Promise<Vitest> {
  const options = { config: 'test/mutation/vitest.config.ts', root: copy, watch: false, bail: 1, maxWorkers: 1 }
  return createVitest('test', { ...options, reporters: [{}], onConsoleLog: () => false })
}

async function isGreen(vitest: Vitest): Promise<boolean> {
  execFileSync(process.execPath, ['tools/embed-lua.ts'], { cwd: copy, stdio: 'ignore' })
  vitest.state.filesMap.clear()
  await vitest.start()
  const files = vitest.state.getFiles()
  const hasRun = files.length > 0
  return hasRun && vitest.state.errorsSet.size === 0 && files.every(({ result }) => result?.state === 'pass')
}
