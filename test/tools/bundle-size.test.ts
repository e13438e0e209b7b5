import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, inject, test } from 'vitest'
import { MAX_SCRIPT_KIB } from '../../tools/build-worker.ts'

test('buildWorker() leaves no more to every isolate than may be there: what only some need is loaded when they need it', () => {
  expect(inject('bundle').scriptBytes).toBeLessThanOrEqual(MAX_SCRIPT_KIB * 1_024)
})

test('buildWorker() removes the commands of @upstash/redis that the Worker never sends', () => {
  const { folder, modules } = inject('bundle')
  const code = modules.map((name) => readFileSync(join(folder, name), 'utf8')).join('\n')
  expect(code).toMatch(/`evalsha`/)
  expect(code).not.toMatch(/`zunionstore`|`fcall`|`hset`/)
})
