/** One member of a JSON body, many spellings: what any parser finds is what the caller is counted by, or he is counted as nobody. */
import fc from 'fast-check'
import { expect } from 'vitest'
import { parsePointer } from '../../src/core/model/identity-source.ts'
import { readPlace } from '../support/read-place.ts'
import { fuzz } from './fuzz.ts'

/** An object as it is written: its members in order, names may come again. */
interface Written {
  readonly members: readonly (readonly [name: string, value: Value])[]
}
type Value = string | number | boolean | null | Written | readonly Value[]

const names = fc.constantFrom('id', 'user', 'ID', 'Id', 'i_d', 'User', 'users', 'a', 'id ', '')
const { value } = fc.letrec<{ value: Value; object: Written }>((tie) => ({
  object: fc.record({ members: fc.array(fc.tuple(names, tie('value')), { maxLength: 4 }) }),
  value: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc.constantFrom<Value>('X', 'Y', '', ' X', '1', '01', 1, 1.5, 0, true, null, 'x"y', '}'),
    tie('object'),
    fc.array(tie('value'), { maxLength: 3 }),
  ),
}))

function write(written: Value, gap: string): string {
  if (Array.isArray(written)) return `[${gap}${written.map((each) => write(each, gap)).join(`${gap},${gap}`)}]`
  if (typeof written !== 'object' || written === null) return JSON.stringify(written)
  const members = (written as Written).members.map(
    ([name, each]) => `${JSON.stringify(name)}${gap}:${write(each, gap)}`,
  )
  return `{${gap}${members.join(',')}}`
}

/** Which of the members of an object a parser takes for one of this name. */
type Choose = (members: Written['members'], name: string) => Value | undefined
const folded = (text: string) => text.toLowerCase().replace(/[^a-z\d]/g, '')
const PARSERS: Readonly<Record<string, Choose>> = {
  'the last': (members, name) => members.findLast(([other]) => other === name)?.[1],
  'the first': (members, name) => members.find(([other]) => other === name)?.[1],
  'whatever the case, the last': (members, name) =>
    members.findLast(([other]) => other.toLowerCase() === name.toLowerCase())?.[1],
  'whatever the case and signs, the first': (members, name) =>
    members.find(([other]) => folded(other) === folded(name))?.[1],
}

function find(written: Value | undefined, path: readonly string[], choose: Choose): Value | undefined {
  const [name, ...rest] = path
  if (name === undefined) return written
  if (Array.isArray(written)) return find(written[/^\d$/.test(name) ? Number(name) : -1], rest, choose)
  if (typeof written !== 'object' || written === null) return undefined
  return find(choose((written as Written).members, name), rest, choose)
}

fuzz(
  'readPart() and four parsers find the same, or it finds none',
  500,
  fc.asyncProperty(
    value,
    fc.constantFrom('/id', '/user/id', '/0/id', '/user/0', '/a/1'),
    fc.constantFrom('', ' ', '\n\t'),
    async (written, pointer, gap) => {
      const path = parsePointer(pointer) ?? []
      const request = new Request('https://gateway.example/', { method: 'POST', body: write(written, gap) })
      const reading = await readPlace('json', request, path)
      if (reading.kind === 'ambiguous') return
      for (const [parser, choose] of Object.entries(PARSERS)) {
        const found = find(written, path, choose)
        if (found === undefined || found === null || (typeof found === 'string' && found.trim() === '')) continue
        expect(String(found).trim(), parser).toBe(reading.kind === 'value' ? reading.value : undefined)
      }
    },
  ),
)
