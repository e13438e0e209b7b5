import { expect, inject, test } from 'vitest'
import { MAX_SCRIPT_KIB } from '../../tools/build-worker.ts'

test('buildWorker() leaves no more to every isolate than may be there: what only some need is loaded when they ask', () => {
  expect(inject('bundle').scriptBytes).toBeLessThanOrEqual(MAX_SCRIPT_KIB * 1_024)
})
