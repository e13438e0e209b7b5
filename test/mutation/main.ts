/**
 * Changes the code a little, one change at a time, and counts the changes that no test notices: `npm run test:mutation`,
 * or with the names of folders, or of files in them; `--sample 2/5` takes the second of every five only. By hand and weekly: it
 * takes hours. Prints the score of each file as it is known, and each survivor that is not named in `survivors.ts` with
 * a reason.
 */
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { parseArgs } from 'node:util'
import { Stryker } from '@stryker-mutator/core'
import { NOT_MUTATED, TESTS } from './folders.ts'
import { type Mutant, reportByFile, SAMPLE } from './plugins.ts'
import { addScore, createScore, formatScore, type Score } from './score.ts'
import { isNamed } from './survivors.ts'

const ROOT = join(import.meta.dirname, '../..')
const SKIPPED = ['lib', 'dist', 'build', 'bench', 'docs', 'examples']

const copies = mkdtempSync(join(tmpdir(), 'sluice-mutation-'))
process.once('exit', () => rmSync(copies, { recursive: true, force: true }))
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))

const { values, positionals: wanted } = parseArgs({
  options: { sample: { type: 'string', default: '1/1' } },
  allowPositionals: true,
})
process.env[SAMPLE] = values.sample

const scores = new Map<string, Score>()
const folders = Object.keys(TESTS).filter((name) => !name.startsWith('lua'))
for (const folder of folders) {
  const inner = folders.filter((name) => name.startsWith(`${folder}/`))
  const files = globSync(`src/${folder}/**/*.ts`, { cwd: ROOT })
    .filter((file) => !NOT_MUTATED.includes(file) && !inner.some((name) => file.startsWith(`src/${name}/`)))
    .filter((file) => wanted.length === 0 || wanted.some((name) => file.startsWith(`src/${name}`)))
  if (files.length > 0) await mutate(folder, files.toSorted())
}
for (const [folder, score] of scores) console.log(`${folder}: ${formatScore(score)}`)
process.exit()

async function mutate(folder: string, files: string[]): Promise<void> {
  process.env.MUTATED_FOLDER = folder
  const total = createScore()
  scores.set(folder, total)
  reportByFile((path, mutants) => {
    addScore(total, print(relative(ROOT, path), mutants))
  })
  const stryker = new Stryker({
    testRunner: 'vitest',
    plugins: ['@stryker-mutator/vitest-runner', join(import.meta.dirname, 'plugins.ts')],
    vitest: { configFile: 'test/mutation/vitest.config.ts', related: false },
    mutate: files,
    ignorePatterns: SKIPPED,
    tempDirName: copies,
    concurrency: Number(process.env.MUTATION_WORKERS ?? 1),
    coverageAnalysis: 'perTest',
    // What is only evaluated as a module is loaded would be mutated in every test.
    ignoreStatic: true,
    // TypeScript 7 has no API that Stryker could read it with.
    tsconfigFile: 'none',
    checkers: values.sample === '1/1' ? [] : ['sample'],
    reporters: ['by-file', ...(process.env.MUTATION_PROGRESS ? ['progress-append-only'] : [])],
    logLevel: 'error',
    timeoutMS: 20_000,
    dryRunTimeoutMinutes: 30,
  } as ConstructorParameters<typeof Stryker>[0])
  await stryker.runMutationTest()
}

function print(file: string, mutants: readonly Mutant[]): Score {
  const filterByStatus = (...wanted: readonly Mutant['status'][]) =>
    mutants.filter(({ status }) => wanted.includes(status))
  const lines = readFileSync(join(ROOT, file), 'utf8').split('\n')
  const hasReason = ({ location, replacement }: Mutant) =>
    isNamed(file, lines[location.start.line - 1]?.trim() ?? '', replacement)
  // An error outside of any test has turned the run red.
  const killed = filterByStatus('Killed', 'Timeout', 'RuntimeError').length
  const survivors = filterByStatus('Survived', 'NoCoverage')
  const unnamed = survivors.filter((one) => !hasReason(one))
  const score = {
    killed,
    survived: unnamed.length,
    named: survivors.length - unnamed.length,
    all: mutants.length - filterByStatus('Ignored').length,
  }
  console.log(`${file}: ${formatScore(score)}`)
  for (const { status, location, mutatorName, replacement } of unnamed) {
    const { line, column } = location.start
    const change = (replacement ?? '').replaceAll(/\s+/g, ' ').slice(0, 90)
    console.log(`  ${status} ${line}:${column} ${mutatorName}: ${change}`)
  }
  return score
}
