import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, inject, test } from 'vitest'
import { expectNoWindowOver } from '../../support/windows.ts'

const PROCESS = join(import.meta.dirname, '../../support/waiting-process.ts')

async function waitingProcess(prefix: string, limits: string, takes: number): Promise<number[]> {
  const args = [PROCESS, inject('redisPort'), prefix, limits, takes].map(String)
  const { stdout } = await promisify(execFile)(process.execPath, args)
  return JSON.parse(stdout)
}

test('two processes that share one Redis are granted what they wait for, and hold to one limit together', async () => {
  const prefix = crypto.randomUUID()
  const processes = [1, 2].map(() => waitingProcess(prefix, '4/200ms, 15/1s', 20))
  const grantedAtMs = (await Promise.all(processes)).flat()
  expect(grantedAtMs).toHaveLength(40)
  const admitted = grantedAtMs.map((ms) => ({ ms, cost: 1 }))
  expectNoWindowOver(4, 200, admitted)
  expectNoWindowOver(15, 1_000, admitted)
})
