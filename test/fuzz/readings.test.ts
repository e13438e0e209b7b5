import fc from 'fast-check'
import { expect } from 'vitest'
import { loadConfig } from '../../src/config/load-config.ts'
import { PolicyFinder } from '../../src/policy/policy-finder.ts'
import { readPath } from '../../src/policy/request-path.ts'
import { fuzz } from './fuzz.ts'
import { textOf } from './strings.ts'

const MOST_READINGS = 128
const READING = /^(?:\/|(?:\/(?!\.{1,2}(?:\/|$))[^/?#]+)+)$/s

const path = textOf(
  ...[
    '/',
    '//',
    ';',
    ';v=1',
    '%2F',
    '%5c',
    '%00',
    '%01',
    '%252F',
    '%C0%AF',
    '..',
    '.',
    '%2e',
    '%zz',
    '%',
    '\\',
    'a',
    'é',
  ],
)

fuzz(
  'readPath() answers a bounded number of readings, each with nothing left to resolve, to any path',
  300,
  fc.property(path, (path) => {
    const url = `https://gateway.example/${path}`
    if (!URL.canParse(url)) return
    const { canonical, readings, isDoubtful } = readPath(new URL(url).pathname)
    expect(readings[0]).toBe(canonical)
    expect(readings.length).toBeLessThanOrEqual(MOST_READINGS)
    for (const reading of readings) expect(reading).toMatch(READING)
    if (!isDoubtful) expect(readings).toEqual([canonical])
  }),
)

/** A spelling that some API takes for the plain path. */
type Disguise = (path: string) => string

const segmentAt = (path: string, at: number, change: (segment: string) => string) => {
  const segments = path.split('/')
  const index = 1 + (at % (segments.length - 1))
  return segments.map((segment, i) => (i === index ? change(segment) : segment)).join('/')
}
/** In the order in which they are put on: an API takes them off from the last to the first. */
const DISGUISES: readonly ((at: number) => Disguise)[] = [
  () => (path) => `/x/..${path}`,
  () => (path) => `/.//${path.slice(1)}/`,
  () => (path) => `/x/%2e%2E${path}`,
  (at) => (path) => path.replace(/%..|\w/g, (text, index) => (index % 3 === at % 3 ? escaped(text) : text)),
  () => (path) => path.replace(/(?!^)\//, '%2F'),
  () => (path) => path.replace(/(?!^)\//, '%5c'),
  () => (path) => `${path}%00.png`,
  (at) => (path) => segmentAt(path, at, (segment) => `${segment};v=${at}`),
  () => (path) => `//h${path}`,
]

function escaped(letter: string): string {
  return letter.length === 1 ? `%${letter.charCodeAt(0).toString(16)}` : letter
}

const plain = fc.array(fc.constantFrom('login', 'users', 'v1', 'a'), { minLength: 1, maxLength: 3 })
const disguise = fc.tuple(fc.subarray([...DISGUISES], { minLength: 1, maxLength: 3 }), fc.nat({ max: 5 })).map(
  ([disguises, at]): Disguise =>
    (path) =>
      disguises.reduce((text, disguise) => disguise(at)(text), path),
)

const config = loadConfig({
  UPSTREAM_URL: 'https://api.example.com',
  EXEMPT: '/v1/*, GET /a',
  POLICIES: ['/login', '/users/:id', '/v1/*/a', 'POST /a/login'].map((match, i) => ({
    name: `p${i}`,
    limits: '5/1s',
    match,
  })),
})
const finder = new PolicyFinder(config.policies, [])
const exempting = new PolicyFinder([], config.exempt)

fuzz(
  'PolicyFinder#find() finds by any disguise of a path what it finds by the plain one, and exempts by none in doubt',
  300,
  fc.property(plain, disguise, (segments, disguise) => {
    const plainPath = readPath(new URL(`https://gateway.example/${segments.join('/')}`).pathname)
    const disguised = disguise(plainPath.canonical)
    const found = readPath(new URL(`https://gateway.example${disguised}`).pathname)
    const policies = (path: typeof plainPath) => {
      const matches = finder.find(['POST'], path)
      return matches === 'exempt' ? [] : matches.map(({ policy }) => policy.name)
    }
    expect(policies(found), disguised).toEqual(expect.arrayContaining(policies(plainPath)))
    if (found.isDoubtful) expect(exempting.find(['GET'], found)).not.toBe('exempt')
  }),
)
