/** How many functions one warm call of `outbound()` enters, as `bench/functions.ts` counts them. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { ofNode } from '../support/of-node.ts'

const MAX_FUNCTIONS = 90

test('a call whose limit is in memory enters few functions, whether the server reports limits or not', async () => {
  const script = join(import.meta.dirname, '../../bench/functions.ts')
  const { stdout } = await promisify(execFile)(process.execPath, [script, 'outbound'], {
    env: ofNode() as NodeJS.ProcessEnv,
  })
  const counts = [...stdout.matchAll(/(\d+) functions/g)].map(([, count]) => Number(count))
  expect(counts).toHaveLength(2)
  expect(Math.min(...counts)).toBeGreaterThan(0)
  expect(Math.max(...counts)).toBeLessThanOrEqual(MAX_FUNCTIONS)
})
