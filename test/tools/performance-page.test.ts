import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { PART_NAMES, renewReadme } from '../../bench/report/page.ts'

const read = (file: string) => readFileSync(join(import.meta.dirname, '../..', file), 'utf8')

test('bench/results/performance.md has a place for each part that npm run bench writes, and for no other', () => {
  const page = read('bench/results/performance.md')
  const places = [...page.matchAll(/<!-- figures: (.*?) -->\n(?:.*?\n)??<!-- end of figures -->/gs)].map(
    ([, name]) => name,
  )
  expect(places.toSorted()).toEqual(PART_NAMES.toSorted())
})

test('README.md has a place for what a run says', () => {
  const machine = { date: '2026-01-01', processors: '2 × Any', versions: {} }
  const renewed = renewReadme(read('README.md'), { machine })
  expect(renewed).toContain('In our benchmark of 1 January 2026, by processor time')
  expect(renewed).toContain('[More](docs/performance.md)\n\n## ')
})
