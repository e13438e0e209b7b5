/**
 * Plants one fault after the other into a copy of the project, and runs the tests that must find it, or `npm test`:
 * `npm run test:planted`. A fault that no test finds is a hole in the tests. With names of faults, or parts of the paths of
 * files, as arguments, plants those only. With `--commands`, plants one for each command that judges, and runs that.
 */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { COMMANDS, type PlantedCommand } from './commands.ts'
import { FAULTS, type Fault } from './faults.ts'

const ROOT = join(import.meta.dirname, '../..')
/** Faults that may go unfound. */
const MAX_UNFOUND = 1
/** Tests that have found a fault, after which no more are run. */
const BAIL = 5
const BOUND_MS = 300_000

const copy = mkdtempSync(join(tmpdir(), 'sluice-planted-'))
process.once('exit', () => rmSync(copy, { recursive: true, force: true }))
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))

const files = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], { cwd: ROOT, encoding: 'utf8' })
for (const file of files.trim().split('\n')) cpSync(join(ROOT, file), join(copy, file))
symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'))
// Some tests look at the files that git knows.
execFileSync('git', ['init', '-q'], { cwd: copy })
execFileSync('git', ['add', '-A'], { cwd: copy })

function plant({ file, find, replace }: Fault): () => void {
  const path = join(copy, file)
  const text = readFileSync(path, 'utf8')
  const places = text.split(find).length - 1
  if (places !== 1) throw new Error(`${file}: expected one place to plant in, found ${places}: ${find}`)
  const write = (content: string) => {
    writeFileSync(path, content)
    if (file.endsWith('.lua')) execFileSync(process.execPath, ['tools/embed-lua.ts'], { cwd: copy })
  }
  write(text.replace(find, () => replace))
  return () => write(text)
}

/** Runs test files, or all of `npm test`. @returns the tests that have failed */
async function runTests(filters: readonly string[] = []): Promise<readonly string[]> {
  const report = join(copy, 'report.json')
  rmSync(report, { force: true })
  const args = ['run', '--tags-filter=!slow', `--bail=${BAIL}`, '--reporter=json', `--outputFile=${report}`, ...filters]
  const child = spawn('vitest', args, { cwd: copy, stdio: 'ignore' })
  const timer = setTimeout(() => child.kill('SIGKILL'), BOUND_MS)
  await once(child, 'close')
  clearTimeout(timer)
  const { numTotalTests, testResults } = JSON.parse(readFileSync(report, 'utf8')) as {
    numTotalTests: number
    testResults: { name: string; message: string; assertionResults: { status: string; fullName: string }[] }[]
  }
  if (numTotalTests === 0) throw new Error(`no test was run: ${filters.join(' ')}`)
  return testResults.flatMap(({ name, message, assertionResults }) => {
    const file = name.replace(`${copy}/`, '')
    const failed = assertionResults.filter(({ status }) => status === 'failed')
    if (failed.length === 0 && message) return [`${file}: ${message.split('\n')[0]}`]
    return failed.map(({ fullName }) => `${file}: ${fullName}`)
  })
}

/** @returns how many were not found */
async function plantFaults(planted: readonly Fault[]): Promise<number> {
  let unfound = 0
  for (const fault of planted) {
    const remove = plant(fault)
    const failed = await runTests(fault.tests).finally(remove)
    if (failed.length === 0) unfound++
    const found =
      failed.length === 0 ? 'NOT FOUND' : `found by ${failed.length}${failed.length >= BAIL ? ' or more' : ''}`
    console.log(`${fault.name} (${fault.file}): ${found}`)
    for (const test of failed) console.log(`  ${test}`)
  }
  console.log(`\n${planted.length - unfound} of ${planted.length} found`)
  return unfound
}

/** Runs a command on a fault that it must find. @returns a row of the table, and whether it turned red */
async function runCommand({ command, args, fault, says }: PlantedCommand) {
  const remove = plant(fault)
  const startMs = performance.now()
  const child = spawn(args[0] as string, args.slice(1), { cwd: copy, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk))
  const timer = setTimeout(() => child.kill('SIGKILL'), BOUND_MS)
  const [code] = (await once(child, 'close').finally(remove)) as [number | null]
  clearTimeout(timer)
  const line = output.split('\n').find((text) => says.test(text))
  const isRed = code !== 0 && code !== null && line !== undefined
  const verdict = isRed ? 'red' : code === null ? 'no verdict' : `exit ${code}`
  if (!isRed) console.error(output.slice(-2_000))
  const seconds = ((performance.now() - startMs) / 1_000).toFixed(0)
  return { isRed, row: [command, fault.name, verdict, `${seconds} s`, (line ?? '').trim().slice(0, 100)] }
}

const { positionals, values } = parseArgs({ allowPositionals: true, options: { commands: { type: 'boolean' } } })
if (values.commands) {
  const rows: string[][] = []
  const commands = COMMANDS.filter(({ command }) => positionals.length === 0 || positionals.includes(command))
  let red = 0
  for (const each of commands) {
    const { isRed, row } = await runCommand(each)
    if (isRed) red++
    rows.push(row)
    console.error(row.join('  '))
  }
  console.log(`\n${formatRows([['command', 'fault', 'verdict', 'took', 'said'], ...rows])}`)
  console.log(`\n${red} of ${commands.length} red`)
  process.exit(red === commands.length ? 0 : 1)
}

const isMeant = ({ name, file }: Fault) => positionals.some((each) => name === each || file.includes(each))
const unknown = positionals.filter((each) => !FAULTS.some(({ name, file }) => name === each || file.includes(each)))
if (unknown.length > 0) {
  console.error(`no fault is called ${unknown.join(', ')}; expected ${FAULTS.map(({ name }) => name).join(', ')}`)
  process.exit(2)
}
const planted = positionals.length === 0 ? FAULTS : FAULTS.filter(isMeant)
const fast = planted.flatMap(({ tests }) => tests ?? [])
// Faults that only some files must find say nothing of the others.
const failing = await runTests(positionals.length === 0 ? [] : [...new Set(fast)])
if (failing.length > 0) {
  console.error(`without any fault, these fail:\n  ${failing.join('\n  ')}`)
  process.exit(1)
}
process.exitCode = (await plantFaults(planted)) > (positionals.length === 0 ? MAX_UNFOUND : 0) ? 1 : 0

function formatRows(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0)))
  return rows
    .map((row) =>
      row
        .map((cell, at) => cell.padEnd(widths[at] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}
