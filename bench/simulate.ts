/**
 * How fast `sluice simulate` reads, and how much memory it takes.
 *
 *     npm run bench:simulate -- [--lines 1000000] [--callers 5000]
 *
 * Writes a log in the Combined Log Format to a temporary folder, replays all of it and the first tenth, and prints lines
 * per second of processor time and the most memory of each.
 */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { finished } from 'node:stream/promises'
import { parseArgs, promisify } from 'node:util'

const ROOT = join(import.meta.dirname, '..')
const LINES_PER_S = 400
const START_S = Date.UTC(2026, 0, 1) / 1_000
const PATHS = ['/', '/things', '/things/17', '/search?q=sluice&page=2', '/login', '/assets/main.css?v=31']
const AGENT = 'Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0'
/** Runs in the process of the command, and prints to the standard error what it took. */
const METER = `process.on('exit', () => {
  const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage()
  process.stderr.write('\\nmeter ' + JSON.stringify({ cpuS: (userCPUTime + systemCPUTime) / 1e6, maxMiB: maxRSS / 1024 }))
})`

const { values } = parseArgs({
  options: { lines: { type: 'string', default: '1000000' }, callers: { type: 'string', default: '5000' } },
})
const lines = Number(values.lines)
const callers = Number(values.callers)
const folder = await mkdtemp(join(tmpdir(), 'sluice-simulate-'))
try {
  await writeFile(join(folder, 'meter.mjs'), METER)
  for (const count of [Math.round(lines / 10), lines]) {
    const log = join(folder, `${count}.log`)
    await writeLog(log, count)
    const args = [
      '--import',
      join(folder, 'meter.mjs'),
      'src/cli.ts',
      'simulate',
      log,
      '--json',
      '--limits',
      '10/1s, 120/1m',
    ]
    const { stdout, stderr } = await promisify(execFile)(process.execPath, args, { cwd: ROOT })
    const { requests, seconds, results } = JSON.parse(stdout)
    const { cpuS, maxMiB } = JSON.parse(/meter (.*)$/.exec(stderr)?.[1] ?? '')
    const rate = Math.round(requests / cpuS).toLocaleString('en')
    console.log(
      `${requests.toLocaleString('en')} lines: ${cpuS.toFixed(1)} s of processor time (${rate} lines a second), ` +
        `${seconds} s of time, ${Math.round(maxMiB)} MiB at most; ${results[0].refused.toLocaleString('en')} refused`,
    )
  }
} finally {
  await rm(folder, { recursive: true })
}

async function writeLog(file: string, count: number): Promise<void> {
  const out = createWriteStream(file)
  for (let i = 0; i < count; i++) {
    // A few callers send most.
    const caller = Math.floor(callers * ((i * 0.6180339887) % 1) ** 3)
    const ip = `198.18.${caller >> 8}.${caller & 255}`
    const time = formatTime(START_S + Math.floor(i / LINES_PER_S))
    const line = `${ip} - - [${time}] "GET ${PATHS[i % PATHS.length]} HTTP/1.1" 200 512 "https://example.com/" "${AGENT}"\n`
    if (!out.write(line)) await once(out, 'drain')
  }
  await finished(out.end())
}

function formatTime(seconds: number): string {
  const [, , month, , time] = new Date(seconds * 1_000).toUTCString().split(' ')
  const day = new Date(seconds * 1_000).toISOString().slice(8, 10)
  return `${day}/${month}/2026:${time} +0000`
}
