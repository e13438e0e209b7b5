import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { formatCosts } from '../../bench/scale/costs.ts'
import { formatFigures, renewPage } from '../../bench/scale/page.ts'
import { FLOODED_GLOBAL, HOT_GLOBAL, PER_TOKEN, TOKEN_AND_GLOBAL } from '../../bench/scale/policies.ts'
import type { ScaleResults, ScaleRow } from '../../bench/scale/results.ts'

const page = readFileSync(join(import.meta.dirname, '../../bench/results/scale.md'), 'utf8')

const ROW: ScaleRow = {
  ...{ policies: HOT_GLOBAL.name, store: 'redis', leases: 'off', perSecond: 10, oneIn: 1 },
  ...{ requests: 3_015, admitted: 3_000, refused: 15, undecided: 0, ideal: 3_000, fullest: 1, p50Ms: 9, p99Ms: 90 },
  ...{ calls: 1, sharedCalls: 0, commands: 5, rowsWritten: 0, rowsRead: 0, gbSeconds: 0, made: 0, dollars: 1.25 },
}
const COUNTS = { admitted: 100, undecided: 0, calls: 120, written: 200 }
const RESULTS: ScaleResults = {
  machine: { date: '2026-01-01', processors: '2 × Any', node: '24.0.0', seconds: 1 },
  seed: 1,
  rows: [PER_TOKEN, TOKEN_AND_GLOBAL, HOT_GLOBAL, FLOODED_GLOBAL].map(({ name }) => ({ ...ROW, policies: name })),
  ...{ lookingAround: [ROW], nearRedis: [ROW], scaledDown: [ROW] },
  crossCheck: [{ store: 'redis', leases: 'off', isShared: false, requests: 120, real: COUNTS, simulated: COUNTS }],
}

test('bench/results/scale.md has a place for all that bench:scale writes', () => {
  const renewed = renewPage(page, formatFigures(RESULTS))
  expect(renewed.match(/\| 9 \/ 90 +\| 1\.25 /g)).toHaveLength(4 + 1 + 1 + 4)
  expect(renewed).toContain('2026-01-01, seed 1, Node 24.0.0, 2 × Any: 12,060 requests measured in 4 scenarios')
  expect(renewed).toContain('The simulation was off by 0.0% at most.')
})

test('figures that a run has not measured stay', () => {
  expect(renewPage(page, new Map())).toBe(page)
})

test('docs/costs.md is as npm run bench:costs writes it', () => {
  const costs = readFileSync(join(import.meta.dirname, '../../docs/costs.md'), 'utf8')
  expect(renewPage(costs, formatCosts(page))).toBe(costs)
})

test('no true window of any key on the page was over its limit', () => {
  const [, fullest] = /The fullest true window of any key held (\S+) of its limit/.exec(page) ?? []
  expect(Number(fullest)).toBeLessThanOrEqual(1)
})
