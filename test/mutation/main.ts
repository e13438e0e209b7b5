/**
 * Changes the code a little, one change at a time, and counts the changes that no test notices: `npm run test:mutation`,
 * or with the names of folders, or of files in them. By hand and weekly: it takes hours. Prints the score of each file,
 * and each survivor that is not named in `survivors.ts` with a reason.
 */
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Stryker } from '@stryker-mutator/core'
import { TESTS } from './folders.ts'
import { SURVIVORS } from './survivors.ts'

const ROOT = join(import.meta.dirname, '../..')
const SKIPPED = ['lib', 'dist', 'build', 'bench', 'docs', 'examples']
type Mutant = Awaited<ReturnType<Stryker['runMutationTest']>>[number]

const copies = mkdtempSync(join(tmpdir(), 'sluice-mutation-'))
process.once('exit', () => rmSync(copies, { recursive: true, force: true }))
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))

const wanted = process.argv.slice(2)
const total = { killed: 0, survived: 0 }
for (const folder of Object.keys(TESTS).filter((name) => name !== 'lua')) {
  for (const file of globSync(`src/${folder}/**/*.ts`, { cwd: ROOT }).toSorted()) {
    // Written by a command.
    if (file.endsWith('lua.ts')) continue
    if (wanted.length > 0 && !wanted.some((name) => file.startsWith(`src/${name}`))) continue
    await mutate(folder, file)
  }
}
console.log(`\n${total.killed} killed, ${total.survived} survived: ${formatScore(total)}`)
process.exit()

async function mutate(folder: string, file: string): Promise<void> {
  process.env.MUTATED_FOLDER = folder
  const stryker = new Stryker({
    testRunner: 'vitest',
    plugins: ['@stryker-mutator/vitest-runner'],
    vitest: { configFile: 'test/mutation/vitest.config.ts', related: false },
    mutate: [file],
    ignorePatterns: SKIPPED,
    tempDirName: copies,
    concurrency: Number(process.env.MUTATION_WORKERS ?? 1),
    coverageAnalysis: 'perTest',
    // What is only evaluated as a module is loaded would be mutated in every test.
    ignoreStatic: true,
    // TypeScript 7 has no API that Stryker could read it with.
    tsconfigFile: 'none',
    reporters: process.env.MUTATION_PROGRESS ? ['progress-append-only'] : [],
    logLevel: 'error',
    timeoutMS: 20_000,
    dryRunTimeoutMinutes: 30,
  } as ConstructorParameters<typeof Stryker>[0])
  const mutants = await stryker.runMutationTest()
  const isOf = (...wanted: readonly Mutant['status'][]) => mutants.filter(({ status }) => wanted.includes(status))
  const lines = readFileSync(join(ROOT, file), 'utf8').split('\n')
  const isNamed = ({ location, replacement }: Mutant) =>
    SURVIVORS.some((one) => {
      const isThere = one.file === file && one.line === lines[location.start.line - 1]?.trim()
      return isThere && one.replacement === replacement
    })
  const [killed, survivors] = [isOf('Killed', 'Timeout'), isOf('Survived', 'NoCoverage').filter((one) => !isNamed(one))]
  total.killed += killed.length
  total.survived += survivors.length
  console.log(`${file}: ${formatScore({ killed: killed.length, survived: survivors.length })}`)
  for (const { status, location, mutatorName, replacement } of survivors) {
    const { line, column } = location.start
    console.log(
      `  ${status} ${line}:${column} ${mutatorName}: ${(replacement ?? '').replaceAll(/\s+/g, ' ').slice(0, 90)}`,
    )
  }
}

function formatScore({ killed, survived }: typeof total): string {
  return `${killed} of ${killed + survived} killed, ${((100 * killed) / Math.max(1, killed + survived)).toFixed(1)}%`
}
