/**
 * Plants one fault after the other into a copy of the project, and runs `npm test` on it: `npm run test:planted`. A
 * fault that no test finds is a hole in the tests. With names of faults as arguments, plants those only.
 */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
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

/** @returns the tests that have failed */
async function runTests(): Promise<readonly string[]> {
  const report = join(copy, 'report.json')
  rmSync(report, { force: true })
  const args = ['run', '--tags-filter=!slow', `--bail=${BAIL}`, '--reporter=json', `--outputFile=${report}`]
  const child = spawn('vitest', args, { cwd: copy, stdio: 'ignore' })
  const timer = setTimeout(() => child.kill('SIGKILL'), BOUND_MS)
  await once(child, 'close')
  clearTimeout(timer)
  const { testResults } = JSON.parse(readFileSync(report, 'utf8')) as {
    testResults: { name: string; message: string; assertionResults: { status: string; fullName: string }[] }[]
  }
  return testResults.flatMap(({ name, message, assertionResults }) => {
    const file = name.replace(`${copy}/`, '')
    const failed = assertionResults.filter(({ status }) => status === 'failed')
    if (failed.length === 0 && message) return [`${file}: ${message.split('\n')[0]}`]
    return failed.map(({ fullName }) => `${file}: ${fullName}`)
  })
}

const only = process.argv.slice(2)
const unknown = only.filter((name) => !FAULTS.some((fault) => fault.name === name))
if (unknown.length > 0) {
  console.error(`no fault is called ${unknown.join(', ')}; expected ${FAULTS.map(({ name }) => name).join(', ')}`)
  process.exit(2)
}
if (only.length === 0) {
  const failing = await runTests()
  if (failing.length > 0) {
    console.error(`without any fault, these fail:\n  ${failing.join('\n  ')}`)
    process.exit(1)
  }
}

let unfound = 0
const planted = FAULTS.filter(({ name }) => only.length === 0 || only.includes(name))
for (const fault of planted) {
  const remove = plant(fault)
  const failed = await runTests()
  remove()
  if (failed.length === 0) unfound++
  const found =
    failed.length === 0 ? 'NOT FOUND' : `found by ${failed.length}${failed.length >= BAIL ? ' or more' : ''}`
  console.log(`${fault.name} (${fault.file}): ${found}`)
  for (const test of failed) console.log(`  ${test}`)
}
console.log(`\n${planted.length - unfound} of ${planted.length} found`)
process.exitCode = unfound > MAX_UNFOUND ? 1 : 0
