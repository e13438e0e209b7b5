import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { renewPage } from '../../bench/report/markdown.ts'
import { formatCosts } from '../../bench/scale/costs.ts'
import { formatCrossCheck, formatFigures } from '../../bench/scale/page.ts'
import {
  FLOODED_GLOBAL,
  HOT_GLOBAL,
  PER_TOKEN,
  THREE_IDENTITIES,
  TOKEN_AND_GLOBAL,
  TOKEN_AND_TENANT,
} from '../../bench/scale/policies.ts'
import type { CrossCheckRow, ScaleResults, ScaleRow } from '../../bench/scale/results.ts'

const page = readFileSync(join(import.meta.dirname, '../../bench/results/scale.md'), 'utf8')

const ROW: ScaleRow = {
  ...{ policies: HOT_GLOBAL.name, store: 'redis', leases: 'off', perSecond: 10, oneIn: 1, isolates: 1_200, shards: 1 },
  ...{ requests: 3_015, admitted: 3_000, refused: 15, undecided: 0, ideal: 3_000, fullest: 1, p50Ms: 9, p99Ms: 90 },
  ...{ calls: 1, sharedCalls: 0, commands: 5, rowsWritten: 0, rowsRead: 0, gbSeconds: 0, made: 0, dollars: 1.25 },
}
const COUNTS = { admitted: 100, undecided: 0, calls: 120, written: 200 }
const POLICIES = [PER_TOKEN, TOKEN_AND_TENANT, TOKEN_AND_GLOBAL, THREE_IDENTITIES, HOT_GLOBAL, FLOODED_GLOBAL]
const RESULTS: ScaleResults = {
  machine: { date: '2026-01-01', processors: '2 × Any', node: '24.0.0', seconds: 1 },
  seed: 1,
  rows: POLICIES.map(({ name }) => ({ ...ROW, policies: name })),
  ...{ lookingAround: [ROW], nearRedis: [ROW], byIsolates: [ROW], byShards: [ROW], scaledDown: [ROW] },
}
const CROSS_CHECK: CrossCheckRow = {
  ...{ store: 'redis', leases: 'off', isShared: false, requests: 120, real: COUNTS, simulated: COUNTS },
}

test('bench/results/scale.md has a place for all that bench:scale writes', () => {
  const parts = [...formatFigures(RESULTS), ...formatCrossCheck([CROSS_CHECK], RESULTS.machine)]
  const renewed = renewPage(page, new Map(parts))
  expect(renewed.match(/\| 9 \/ 90 +\| 1\.25 /g)).toHaveLength(6 + 1 + 1 + 1 + 1 + 6)
  expect(renewed).toContain('2026-01-01, Node 24.0.0, 2 × Any, seed 1: 18,090 requests measured in 6 scenarios')
  expect(renewed).toContain('The simulation was off by 0.0% at most. (2026-01-01, Node 24.0.0, 2 × Any)')
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
