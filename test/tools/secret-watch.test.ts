import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { PLANTED, SecretWatch, WORKER_LOG } from '../setup/secret-watch.ts'
import SummaryReporter from '../setup/summary-reporter.ts'

async function logFile(text: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-secret-watch-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const file = join(folder, 'log')
  await writeFile(file, text)
  return file
}

test('SecretWatch#end() reports each secret in what it has read', async () => {
  const watch = new SecretWatch(await logFile(`{"event":"x"}\n{"message":"token ${PLANTED}-a was wrong"}\n`))
  watch.read('nothing here')
  watch.read(`first\nBearer ${PLANTED}-b`)
  expect(watch.end()).toEqual([expect.stringContaining(`Bearer ${PLANTED}-b`), expect.stringContaining(`${PLANTED}-a`)])
})

test('SecretWatch#end() is content where no secret is', async () => {
  const watch = new SecretWatch(await logFile('planted\nsecret\n'))
  watch.read('planted secret')
  expect(watch.end()).toEqual([])
  expect(new SecretWatch('/nowhere').end()).toEqual([])
})

test('SummaryReporter counts a secret that a test has printed as a failure, and the run fails', async () => {
  const reporter = new SummaryReporter({ watch: new SecretWatch(await logFile(`${PLANTED}-c`)) })
  const lines: string[] = []
  const print = (line: string) => void lines.push(line)
  const spies = [vi.spyOn(console, 'log'), vi.spyOn(console, 'error')].map((spy) => spy.mockImplementation(print))
  const { exitCode } = process
  try {
    reporter.onUserConsoleLog({ content: `${PLANTED}-d`, type: 'stdout', time: 0, size: 0 })
    reporter.onTestRunEnd([], [])
    expect(process.exitCode).toBe(1)
  } finally {
    process.exitCode = exitCode
    for (const spy of spies) spy.mockRestore()
  }
  expect(lines.join('\n')).toMatch(/\n0 passed, 2 failed$/)
})

test('the log of Workers under test is kept for the watch', () => {
  expect(process.env[WORKER_LOG]).toMatch(/sluice-worker-log-/)
})
