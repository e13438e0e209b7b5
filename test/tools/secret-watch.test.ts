import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { PLANTED, SecretWatch, WORKER_LOG } from '../setup/secret-watch.ts'
import SummaryReporter, { RUN_BOUND_MS } from '../setup/summary-reporter.ts'

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

test('SummaryReporter ends a run that is out of time with what it has seen', () => {
  const lines: string[] = []
  const spy = vi.spyOn(console, 'log').mockImplementation((line: string) => void lines.push(line))
  const exit = vi.spyOn(process, 'exit').mockImplementation(() => undefined as never)
  vi.useFakeTimers({ toFake: ['setTimeout'] })
  vi.stubEnv(RUN_BOUND_MS, '1000')
  try {
    const tests = ['passed', 'pending'].map((state) => ({ fullName: `a ${state} test`, result: () => ({ state }) }))
    const modules = [{ children: { allTests: () => tests }, errors: () => [], state: () => 'pending' }]
    const reporter = new SummaryReporter({ watch: new SecretWatch('/nowhere') })
    reporter.onInit({ state: { getTestModules: () => modules } } as never)
    vi.advanceTimersByTime(1_000)
    expect(exit).toHaveBeenCalledOnce()
  } finally {
    vi.useRealTimers()
    vi.unstubAllEnvs()
    for (const one of [spy, exit]) one.mockRestore()
  }
  expect(lines).toEqual(['inconclusive: a pending test: has not ended in time', '\n1 passed, 0 failed, 1 inconclusive'])
})
