import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { PART_NAMES } from '../../bench/report/page.ts'

test('docs/performance.md has a place for each part that npm run bench writes, and for no other', () => {
  const page = readFileSync(join(import.meta.dirname, '../../docs/performance.md'), 'utf8')
  const places = [...page.matchAll(/<!-- figures: (.*?) -->\n(?:.*?\n)??<!-- end of figures -->/gs)].map(
    ([, name]) => name,
  )
  expect(places.toSorted()).toEqual(PART_NAMES.toSorted())
})
