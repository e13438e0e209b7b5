/**
 * Plants one fault after the other into a copy of the project, and runs the tests that must find it, or `npm test`:
 * `npm run test:planted`. A fault that no test finds is a hole in the tests. With names of faults, or parts of the paths of
 * files or tests, as arguments, plants those only. With `--commands`, plants one for each command that judges, and runs that.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs, stripVTControlCharacters } from 'node:util'
import { renderTable } from '../../tools/markdown.ts'
import { COMMANDS, type PlantedCommand } from './commands.ts'
import { FAULTS, type Fault } from './faults.ts'
import { plant } from './plant.ts'
import { REPORT_VARIABLE, type ReportLine } from './reporter.ts'

const ROOT = join(import.meta.dirname, '../..')
/** Faults that may go unfound. */
const MAX_UNFOUND = 1
/** Tests that have found a fault, after which no more are run. */
const BAIL = 5
const BOUND_MS = 900_000

const copy = mkdtempSync(join(tmpdir(), 'sluice-planted-'))
process.once('exit', () => rmSync(copy, { recursive: true, force: true }))
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))

const files = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], { cwd: ROOT, encoding: 'utf8' })
for (const file of files.trim().split('\n')) cpSync(join(ROOT, file), join(copy, file))
symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'))
// Some tests look at the files that git knows.
execFileSync('git', ['init', '-q'], { cwd: copy })
execFileSync('git', ['add', '-A'], { cwd: copy })

function plantInCopy(fault: Fault): () => void {
  const embedLua = () => execFileSync(process.execPath, ['tools/embed-lua.ts'], { cwd: copy })
  return plant(copy, fault, fault.file.endsWith('.lua') ? embedLua : undefined)
}

interface TestRun {
  /** Tests that have failed, the first ones. */
  readonly failed: readonly string[]
  /** It has run tests to its end: false if Vitest crashed, or took too long. */
  readonly isWhole: boolean
}

/** Runs test files, or all of `npm test`. */
async function runTests(filters: readonly string[] = []): Promise<TestRun> {
  const report = join(copy, 'report.jsonl')
  writeFileSync(report, '')
  const args = ['run', '--tags-filter=!slow', `--bail=${BAIL}`, '--reporter=./test/planted/reporter.ts', ...filters]
  const env = { ...process.env, PWD: copy, [REPORT_VARIABLE]: report }
  await runWithin(spawn('vitest', args, { cwd: copy, env, stdio: 'ignore', detached: true }))
  const lines = readFileSync(report, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as ReportLine)
  const failed = lines.flatMap((line) => ('failed' in line ? [line.failed] : []))
  return { failed, isWhole: lines.some((line) => 'tests' in line && line.tests > 0) }
}

/** Waits until a process has ended, and ends it and what it has started when its time is over. @returns its exit code */
async function runWithin(child: ChildProcess): Promise<number | null> {
  const kill = () => process.kill(-(child.pid as number), 'SIGKILL')
  const timer = setTimeout(kill, BOUND_MS)
  process.once('exit', kill)
  const [code] = (await once(child, 'close')) as [number | null]
  process.off('exit', kill)
  clearTimeout(timer)
  return code
}

/** @returns how many were not found */
async function plantFaults(planted: readonly Fault[]): Promise<number> {
  let unfound = 0
  for (const fault of planted) {
    const remove = plantInCopy(fault)
    const startMs = performance.now()
    const { failed, isWhole } = await runTests(fault.tests).finally(remove)
    if (failed.length === 0) unfound++
    const count = `${failed.length}${failed.length >= BAIL ? ' or more' : ''}`
    const found =
      failed.length > 0 ? `found by ${count}` : isWhole ? 'NOT FOUND' : 'NO VERDICT: Vitest has not ended its run'
    console.log(`${fault.name} (${fault.file}): ${found}, ${formatSeconds(startMs)}`)
    for (const test of failed) console.log(`  ${test}`)
  }
  console.log(`\n${planted.length - unfound} of ${planted.length} found`)
  return unfound
}

function formatSeconds(startMs: number): string {
  return `${((performance.now() - startMs) / 1_000).toFixed(0)} s`
}

type CommandVerdict = 'green' | 'red' | 'inconclusive' | 'no verdict' | 'broken'

interface CommandRun {
  readonly verdict: CommandVerdict
  /** The line of its output that names the mistake. */
  readonly said: string
  readonly took: string
}

/** Runs a command to its verdict. It is red only if it says what the fault does: one that broke has judged nothing. */
async function runCommand({ args, says }: PlantedCommand): Promise<CommandRun> {
  const startMs = performance.now()
  const child = spawn(args[0] as string, args.slice(1), {
    cwd: copy,
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk))
  const code = await runWithin(child)
  output = stripVTControlCharacters(output)
  const said = output.split('\n').find((line) => says.test(line))
  const verdict = findVerdict(code, output, said !== undefined)
  if (verdict === 'broken' || verdict === 'no verdict') console.error(output.slice(-2_000))
  return { verdict, said: (said ?? '').trim().slice(0, 100), took: formatSeconds(startMs) }
}

function findVerdict(code: number | null, output: string, hasSaid: boolean): CommandVerdict {
  if (code === null) return 'no verdict'
  if (code === 0) return hasSaid ? 'broken' : 'green'
  if (hasSaid) return 'red'
  return /^inconclusive\b/m.test(output) ? 'inconclusive' : 'broken'
}

/** A command judges if it is not red without the fault, and red with it. @returns how many do not */
async function plantInCommands(commands: readonly PlantedCommand[]): Promise<number> {
  const header = ['command', 'fault', 'without it', '', 'with it', '', 'said']
  const rows: string[][] = []
  let wrong = 0
  const controls = new Map<string, CommandRun>()
  for (const each of commands) {
    const form = each.args.join(' ')
    const control = controls.get(form) ?? (await runCommand(each))
    controls.set(form, control)
    const remove = plantInCopy(each.fault)
    const planted = await runCommand(each).finally(remove)
    const isRight = ['green', 'inconclusive'].includes(control.verdict) && planted.verdict === 'red'
    if (!isRight) wrong++
    const row = [
      each.command,
      each.fault.name,
      control.verdict,
      control.took,
      planted.verdict,
      planted.took,
      planted.said,
    ]
    rows.push(row)
    console.error(row.join('  '))
  }
  console.log(`\n${renderTable(header, rows)}\n\n${commands.length - wrong} of ${commands.length} judge`)
  return wrong
}

const { positionals, values } = parseArgs({ allowPositionals: true, options: { commands: { type: 'boolean' } } })
if (values.commands) {
  const commands = COMMANDS.filter(({ command }) => positionals.length === 0 || positionals.includes(command))
  process.exit((await plantInCommands(commands)) > 0 || commands.length === 0 ? 1 : 0)
}

const isCalled = ({ name, file, tests = [] }: Fault, each: string) =>
  name === each || [file, ...tests].some((path) => path.includes(each))
const unknown = positionals.filter((each) => !FAULTS.some((fault) => isCalled(fault, each)))
if (unknown.length > 0) {
  console.error(`no fault is called ${unknown.join(', ')}; expected ${FAULTS.map(({ name }) => name).join(', ')}`)
  process.exit(2)
}
const planted =
  positionals.length === 0 ? FAULTS : FAULTS.filter((fault) => positionals.some((each) => isCalled(fault, each)))
// Faults that some files must find say nothing of the others.
const isFast = planted.every(({ tests }) => tests !== undefined)
const control = await runTests(isFast ? [...new Set(planted.flatMap(({ tests }) => tests ?? []))] : [])
if (control.failed.length > 0 || !control.isWhole) {
  console.error(`without any fault, these fail:\n  ${control.failed.join('\n  ') || '(Vitest has not ended its run)'}`)
  process.exit(1)
}
process.exitCode = (await plantFaults(planted)) > (positionals.length === 0 ? MAX_UNFOUND : 0) ? 1 : 0
