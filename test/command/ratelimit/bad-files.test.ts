import { describe, expect, test } from 'vitest'
import { readDomains } from '../../../src/ratelimit-service/rate-limits.ts'

const read = (...texts: readonly string[]) =>
  readDomains(
    texts.map((text, index) => ({ name: `${'ab'[index]}.yaml`, text })),
    'local',
  )

/** A file with one descriptor, whose lines begin in line 3. */
const withDescriptor = (...lines: readonly string[]) =>
  ['domain: d', 'descriptors:', ...lines.map((line, at) => `${at === 0 ? '  - ' : '    '}${line}`)].join('\n')
const withRateLimit = (fields: string) => withDescriptor('key: k', `rate_limit: { ${fields} }`)

/** Each of the lists has ten times the descriptors of the one before. */
function nestAliases(depth: number): readonly string[] {
  const lists = Array.from({ length: depth }, (_, level) => {
    const items = Array.from(
      { length: 10 },
      (_, at) => `{ key: k${at}, descriptors: ${level === 0 ? '[]' : `*a${level - 1}`} }`,
    )
    return `${level === 0 ? '' : '  - '}{ key: l${level}, descriptors: &a${level} [${items.join(', ')}] }`
  })
  return [lists.join('\n')]
}

describe('readDomains() says file, line, column and what was expected', () => {
  test.each([
    ['no YAML', "domain: 'd", /^a\.yaml:1:11: expected YAML: missing closing 'quote/],
    ['an empty file', '', /^a\.yaml:1:1: expected a map with some of domain, descriptors$/],
    ['no domain', 'descriptors:', /^a\.yaml:1:1: expected a domain that is not empty$/],
    ['a key twice', 'domain: d\ndomain: e', /^a\.yaml:2:1: expected YAML: map keys must be unique/],
    [
      'an unknown key',
      withDescriptor('key: k', 'ratelimit: 1'),
      /^a\.yaml:4:5: unknown key "ratelimit"; expected one of key, /,
    ],
    [
      'an unknown key of a limit',
      withRateLimit('requestsperunit: 1'),
      /^a\.yaml:4:19: unknown key "requestsperunit"; /,
    ],
    ['a key that is a number', '0.25: d', /^a\.yaml:1:1: unknown key "0\.25"; expected one of domain, descriptors$/],
    ['a list of texts', 'domain: d\ndescriptors: [a]', /^a\.yaml:2:15: expected a descriptor with some of key, /],
    [
      'descriptors that are no list',
      'domain: d\ndescriptors: a',
      /^a\.yaml:2:14: expected a list of descriptors, got "a"$/,
    ],
    [
      'a descriptor without a key',
      withDescriptor('value: v'),
      /^a\.yaml:3:5: expected a descriptor with a key that is not/,
    ],
    ['a descriptor twice', 'domain: d\ndescriptors: [{ key: k }, { key: k }]', /^a\.yaml:2:34: .* got "d\.k" again$/],
    [
      'an unknown unit',
      withRateLimit('unit: foo'),
      /^a\.yaml:4:25: expected a unit \(second, minute, .*\), got "foo"$/,
    ],
    ['no unit', withRateLimit('requests_per_unit: 1'), /^a\.yaml:4:17: expected a unit \(.*\), got ""$/],
    [
      'a limit below 0',
      withRateLimit('unit: day, requests_per_unit: -1'),
      /^a\.yaml:4:49: expected an integer from 0 to /,
    ],
    ['unlimited beside a unit', withRateLimit('unlimited: true, unit: day'), /^a\.yaml:4:42: expected no limits/],
    [
      'an empty replacement',
      withRateLimit('unit: day, replaces: [{ name: }]'),
      /: expected the name of another rate limit$/,
    ],
    [
      'a limit that replaces itself',
      withRateLimit('name: a, unit: day, replaces: [{ name: a }]'),
      /got its own \("a"\)$/,
    ],
    [
      'a shared threshold without a wildcard',
      withDescriptor('key: k', 'share_threshold: true'),
      /^a\.yaml:4:22: expected a val/,
    ],
    ['no boolean', withDescriptor('key: k', 'shadow_mode: 7'), /^a\.yaml:4:18: expected true or false, got "7"$/],
    [
      'an alias inside of what it names',
      'domain: d\ndescriptors: &a [{ key: k, descriptors: *a }]',
      /^a\.yaml:2:41: expected "\*a" outside of/,
    ],
    ['a map merged into itself', withDescriptor('&a', 'key: k', '<<: *a'), /^a\.yaml:5:9: expected "\*a" outside of/],
    ['a merge of what is no map', withDescriptor('key: k', '<<: 7'), /^a\.yaml:4:9: expected a map with some of key, /],
    [
      'aliases that repeat too much',
      withDescriptor(...nestAliases(6)),
      /^a\.yaml:\d+:\d+: expected at most 200000 maps, those of aliases included$/,
    ],
    [
      'limits beside a unit',
      withRateLimit('limits: 1/1s, unit: day'),
      /^a\.yaml:4:27: expected either limits, or unit and/,
    ],
    [
      'wrong limits',
      withRateLimit('limits: "1"'),
      /^a\.yaml:4:27: limits: expected limits such as .*: "1" lacks a window$/,
    ],
    [
      'a wrong algorithm',
      withRateLimit('unit: day, algorithm: foo'),
      /^a\.yaml:4:41: expected one of sliding-window, .* got "foo"$/,
    ],
    ['slots', withRateLimit('unit: day, algorithm: concurrency'), /got "concurrency"$/],
  ])('%s', (_, text, message) => {
    expect(() => read(text)).toThrow(message)
  })

  test('a domain in two files', () => {
    expect(() => read('domain: d', 'domain: d')).toThrow('b.yaml:1:9: expected each domain in one file, got "d" again')
  })
})

test('readDomains() reads words and numbers as the reference server does', () => {
  const domains = read(withDescriptor('key: 1', 'value: on', 'shadow_mode: yes', 'metadata: { any: [thing] }'))
  expect([...(domains.get('d')?.children.keys() ?? [])]).toEqual(['1_on'])
})

test('readDomains() merges maps, and the own keys of a map win', () => {
  const lines = [
    'domain: d',
    'descriptors:',
    '  - &one { key: one, rate_limit: &limit { unit: hour, requests_per_unit: 1 } }',
    '  - { <<: *one, key: two }',
    '  - { key: three, rate_limit: { <<: [{ unit: day }, *limit], requests_per_unit: 3 } }',
  ]
  const { children } = read(lines.join('\n')).get('d') ?? {}
  const limits = [...(children ?? [])].map(([key, { rateLimit }]) => {
    return [key, typeof rateLimit?.limits === 'object' ? rateLimit.limits.limits : undefined]
  })
  expect(limits).toMatchObject([
    ['one', [{ limit: 1, windowMs: 3_600_000 }]],
    ['two', [{ limit: 1, windowMs: 3_600_000 }]],
    ['three', [{ limit: 3, windowMs: 86_400_000 }]],
  ])
})

test('readDomains() takes a unit that is not known beside "unlimited"', () => {
  expect(read(withRateLimit('unlimited: true, unit: unknown')).get('d')?.children.get('k')?.rateLimit?.limits).toBe(
    'unlimited',
  )
})
