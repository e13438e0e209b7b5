/**
 * Runs what depends on the machine, part by part: `npm run test:system`, with `--weekly` what is long and rarely fails, or
 * with the names of parts. A part that cannot
 * have what it needs has failed. What a slow machine never let happen is told as inconclusive, neither passed nor failed.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { parseArgs } from 'node:util'
import { CLOSING_LINE, FAILED_LINE, RUN_BOUND_MS } from '../setup/summary-reporter.ts'
import { describeNeeds, PARTS, type Part, prepare } from './parts.ts'

/** Several times what the longest part takes on two cores. */
const BOUND_MS = 600_000
/** A run that is out of time has told what it has seen within this. */
const GRACE_MS = 30_000

interface Result {
  readonly part: string
  readonly passed: number
  readonly failed: number
  readonly inconclusive: number
  readonly seconds: number
  /** Lines that name what failed. */
  readonly failures: readonly string[]
}

async function runPart(part: Part): Promise<Result> {
  const { name, shows, vitest } = part
  console.log(`\n── ${name}: ${shows}. Needs ${describeNeeds(part)}.`)
  const startMs = performance.now()
  const end = (passed: number, failed: number, inconclusive = 0, failures: readonly string[] = []): Result => {
    return { part: name, passed, failed, inconclusive, seconds: (performance.now() - startMs) / 1000, failures }
  }
  const missing = await prepare(part)
  for (const line of missing) console.error(line)
  if (missing.length > 0) return end(0, missing.length, 0, missing)

  const args = vitest ?? ['--config', 'vitest.system.config.ts', '--project', name]
  const child = spawn('vitest', ['run', ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: {
      FUZZ: 'system',
      [RUN_BOUND_MS]: String(BOUND_MS),
      ...process.env,
      FORCE_COLOR: process.stdout.isTTY ? '1' : '0',
    },
  })
  let isLate = false
  const timer = setTimeout(() => {
    isLate = true
    child.kill('SIGKILL')
  }, BOUND_MS + GRACE_MS)
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => {
    output += chunk
    process.stdout.write(chunk)
  })
  const [code] = (await once(child, 'close')) as [number | null]
  clearTimeout(timer)
  const [, passed, failed, inconclusive] = (CLOSING_LINE.exec(output) ?? []).map((digits) => Number(digits ?? 0))
  if (isLate) {
    console.log(`inconclusive: ${name}: it has told nothing within ${BOUND_MS / 60_000} minutes`)
    return end(0, 0, 1)
  }
  // A run that told nothing has failed, too.
  const isGreen = code === 0 && passed !== undefined
  return end(
    passed ?? 0,
    isGreen ? (failed ?? 0) : Math.max(failed ?? 0, 1),
    inconclusive,
    output.match(FAILED_LINE) ?? [],
  )
}

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { weekly: { type: 'boolean', default: false } },
})
const unknown = positionals.filter((name) => !PARTS.some((part) => part.name === name))
if (unknown.length > 0) {
  console.error(`no part is called ${unknown.join(', ')}; expected ${PARTS.map(({ name }) => name).join(', ')}`)
  process.exit(2)
}

const results: Result[] = []
for (const part of PARTS) {
  const isMeant = positionals.length > 0 ? positionals.includes(part.name) : values.weekly === (part.isWeekly ?? false)
  if (isMeant) results.push(await runPart(part))
}

const sum = (count: 'passed' | 'failed' | 'inconclusive') => results.reduce((all, result) => all + result[count], 0)
console.log('\npart          passed  failed  inconclusive  seconds')
for (const { part, passed, failed, inconclusive, seconds } of results) {
  const cells = [passed, failed, inconclusive, seconds.toFixed(0)].map(String)
  const widths = [8, 8, 14, 9]
  console.log(part.padEnd(12) + cells.map((cell, index) => cell.padStart(widths[index] as number)).join(''))
}
for (const { part, failures } of results) for (const line of failures) console.log(`${part}: ${line}`)
if (sum('inconclusive') > 0) console.log(`\n${sum('inconclusive')} inconclusive: what was seen stands with each part`)
console.log(`\n${sum('passed')} passed, ${sum('failed')} failed`)
process.exitCode = sum('failed') > 0 ? 1 : 0
