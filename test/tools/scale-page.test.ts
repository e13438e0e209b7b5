import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { renewPage } from '../../bench/scale/page.ts'
import { drawScalePlots } from '../../bench/scale/plots.ts'
import type { ScaleResults } from '../../bench/scale/results.ts'

const ROOT = join(import.meta.dirname, '../..')
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')
const results: ScaleResults = JSON.parse(read('bench/results/scale.json'))

test('the tables of docs/scale.md are those of the figures that are kept', () => {
  const page = read('docs/scale.md')
  expect(renewPage(page, results)).toBe(page)
})

test('so are its plots', () => {
  for (const [name, svg] of drawScalePlots(results)) expect(read(join('bench/results', name)), name).toBe(svg)
})

test('no true window of any key in the kept figures was over its limit', () => {
  expect(Math.max(...results.rows.map(({ fullest }) => fullest))).toBeLessThanOrEqual(1)
})
