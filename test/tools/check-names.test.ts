import { join } from 'node:path'
import { expect, test } from 'vitest'
import { findNameFaults, readModules } from '../../tools/check-names.ts'

const find = (texts: Readonly<Record<string, string>>) => findNameFaults(new Map(Object.entries(texts)))

test('src/ has no name with two homes, no comment without a verb, and nothing that Node 20 lacks', () => {
  expect(findNameFaults(readModules(join(import.meta.dirname, '../..')))).toEqual([])
})

test('findNameFaults() finds a type that two modules name, whichever exports it', () => {
  expect(find({ 'src/a.ts': 'export interface Row {}', 'src/b.ts': '\ntype Row = string' })).toEqual([
    'src/b.ts: the type Row has another home in src/a.ts',
  ])
  expect(find({ 'src/a.ts': 'interface Row {}\ninterface Row {}', 'src/b.ts': 'class Rows {}' })).toEqual([])
})

test('findNameFaults() finds a comment that begins as a fragment, on one line or several', () => {
  expect(find({ 'src/a.ts': '/** Of those that wait. */' })).toEqual([
    'src/a.ts: a comment begins as a fragment: Of those that wait. */',
  ])
  expect(find({ 'src/a.ts': '/**\n * Whether it waits.\n */' })).toHaveLength(1)
  expect(find({ 'src/a.ts': '/** Answers those whose wait is over. In order. */' })).toEqual([])
})

test('findNameFaults() finds what Node 20 lacks, but not where it is only mentioned', () => {
  expect(find({ 'src/a.ts': 'Map.groupBy(a, b)', 'src/b.ts': 'Promise.withResolvers()' })).toHaveLength(2)
  expect(find({ 'src/a.ts': '/** `Map.groupBy` is missing in Node 20. */' })).toEqual([])
})
