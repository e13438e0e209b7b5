/** Four processes, where there is a Redis that they can share, call an API that has limits. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { api } from './api.js'

const processes = process.env.REDIS_URL === undefined ? 1 : 4

before(() => once(api.listen(0, '127.0.0.1'), 'listening'))
after(() => {
  api.close()
  api.closeAllConnections()
})

test(`${processes} clients make their calls, and the API refuses none`, async () => {
  const run = promisify(execFile)
  const args = [`${import.meta.dirname}/client.js`, `http://127.0.0.1:${api.address().port}/`, '15']
  const runs = await Promise.all(Array.from({ length: processes }, () => run(process.execPath, args)))
  assert.deepEqual(
    runs.map(({ stdout }) => stdout),
    Array.from({ length: processes }, () => '200: 15\n'),
  )
})
