/** Numbers in JSON are found as a parser would find them, however it is spelled and cut. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { findMember } from '../../src/http/request/identity/reading.ts'
import { type FoundNumbers, MemberScanner } from '../../src/http/response/member-scanner.ts'
import { expectProperty } from '../support/property.ts'

const token = fc.constantFrom('a', 'b', '0', '1', 'ü/"')
const path = fc.array(token, { minLength: 1, maxLength: 3 })
const places = fc.array(fc.array(path, { minLength: 1, maxLength: 2 }), { minLength: 1, maxLength: 3 })
const { tree } = fc.letrec<{ tree: unknown }>((tie) => ({
  tree: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc.oneof(fc.nat(30), fc.double({ noNaN: true }), fc.constantFrom(null, true, false, 'a', '{"a":1}', '\\"[')),
    fc.array(tie('tree'), { maxLength: 3 }),
    fc.dictionary(token, tie('tree'), { maxKeys: 4, noNullPrototype: true }),
  ),
}))
const table = fc.dictionary(token, tree, { maxKeys: 4, noNullPrototype: true })

/** Writes JSON with some characters of names and strings escaped, and with spaces. */
function spell(value: unknown, indent: number, escapes: boolean): string {
  const text = JSON.stringify(value, undefined, indent)
  const hide = (string: string) => string.replaceAll('a', '\\u0061').replaceAll('ü', '\\u00FC').replaceAll('/', '\\/')
  return escapes ? text.replace(/"(?:[^"\\]|\\.)*"/g, hide) : text
}

function scan(wanted: readonly (readonly (readonly string[])[])[], text: string, sizes: readonly number[]) {
  const documents: FoundNumbers[] = []
  const scanner = new MemberScanner(wanted, (numbers) => documents.push(numbers))
  for (let at = 0, index = 0; at < text.length; index++) {
    const size = sizes[index % sizes.length] ?? 1
    scanner.add(text.slice(at, at + size))
    at += size
  }
  return documents
}

const isNumber = (value: unknown): value is number => typeof value === 'number' && value >= 0
const find = (value: unknown, alternatives: readonly (readonly string[])[]) =>
  alternatives.map((each) => findMember(value, each)).find(isNumber)
const hasNumber = (numbers: FoundNumbers) => numbers.some((each) => each !== undefined)
const sizes = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 4 })

test('finds in documents that follow each other what a parser finds in each', async () => {
  await expectProperty(
    fc.asyncProperty(
      fc.array(table, { maxLength: 3 }),
      places,
      sizes,
      fc.nat(2),
      fc.boolean(),
      async (all, wanted, cuts, indent, escapes) => {
        const text = all.map((each) => spell(each, indent, escapes)).join('\n')
        const expected = all.map((each) =>
          wanted.map((alternatives) => {
            const value = find(each, alternatives)
            return value === undefined ? undefined : { value, isWhole: true }
          }),
        )
        expect(scan(wanted, text, cuts)).toEqual(expected.filter(hasNumber))
      },
    ),
    20_000,
  )
})

test('finds the sum of what the items of a list say, and whether one of them says nothing', async () => {
  const named = fc.array(
    fc.array(
      fc.tuple(fc.constantFrom('a', 'b'), token).map((each) => [...each]),
      { minLength: 1, maxLength: 2 },
    ),
    { minLength: 1, maxLength: 2 },
  )
  await expectProperty(
    fc.asyncProperty(
      fc.array(fc.oneof(table, fc.constantFrom(null, 3, 'a')), { maxLength: 4 }),
      named,
      sizes,
      async (list, wanted, cuts) => {
        const expected = wanted.map((alternatives) => {
          const values = list.map((item) => find(item, alternatives)).filter(isNumber)
          if (values.length === 0) return undefined
          return { value: values.reduce((sum, value) => sum + value, 0), isWhole: values.length === list.length }
        })
        expect(scan(wanted, JSON.stringify(list), cuts)).toEqual([expected].filter(hasNumber))
      },
    ),
    20_000,
  )
})

test('finds what stands at an index of a list, and in the last of its items that says it', () => {
  const text = '[{"n":1},{"n":2,"in":[5,[6,7]]},{"m":3}]'
  const wanted = [
    [['-', 'n']],
    [['0', 'n']],
    [['1', 'in', '0']],
    [['1', 'in', '1', '1']],
    [['-', 'in', '-']],
    [
      ['2', 'n'],
      ['-', 'm'],
    ],
    [['m']],
  ]
  const whole = (value: number) => ({ value, isWhole: true })
  expect(scan(wanted, text, [3])).toEqual([
    [whole(2), whole(1), whole(5), whole(7), whole(5), whole(3), { value: 3, isWhole: false }],
  ])
})

test('takes the last of several members of one name, but no string, no word and no negative number', () => {
  const text = '{"a":1,"a":7,"a":null,"a":"9","a":-3,"a":{"b":4}}'
  expect(scan([[['a']]], text, [1])).toEqual([[{ value: 7, isWhole: true }]])
})

test('begins anew after what is no document', () => {
  expect(scan([[['a']]], '] } [DONE] {"a":5}', [1]).at(-1)).toEqual([{ value: 5, isWhole: true }])
})
