import { expect, test } from 'vitest'
import { descriptor, shareDomains } from '../../support/rate-limit-client.ts'

const limit = (count: number, unit = 'hour') => ({ rate_limit: { unit, requests_per_unit: count } })

/** Descriptors by domain. */
const DOMAINS: Readonly<Record<string, readonly object[]>> = {
  values: [
    { key: 'db', value: 'people', ...limit(2) },
    { key: 'db', value: 'other', ...limit(3, 'second') },
  ],
  nested: [
    { key: 'kind', value: 'ad', descriptors: [{ key: 'to', ...limit(2, 'day') }] },
    { key: 'to', ...limit(4, 'day') },
  ],
  order: [
    { key: 'address', ...limit(2) },
    { key: 'address', value: '192.0.2.5', ...limit(0, 'second') },
    { key: 'address', value: '192.0.2.6' },
  ],
  depth: [
    { key: 'a', value: 'b', ...limit(1) },
    { key: 'c', value: 'd', descriptors: [{ key: 'e', ...limit(1) }] },
  ],
  unlimited: [
    { key: 'free', rate_limit: { unlimited: true } },
    { key: 'paid', ...limit(1, 'minute') },
  ],
  shadow: [
    {
      key: 'service',
      descriptors: [
        { key: 'user', value: 'a', shadow_mode: true, ...limit(1) },
        { key: 'user', value: 'b', ...limit(1) },
      ],
    },
  ],
  replaces: [
    { key: 'k1', descriptors: [{ key: 'user', rate_limit: { name: 'small', unit: 'hour', requests_per_unit: 1 } }] },
    {
      key: 'k2',
      descriptors: [{ key: 'user', rate_limit: { replaces: [{ name: 'small' }], unit: 'hour', requests_per_unit: 2 } }],
    },
  ],
  metrics: [
    { key: 'k', detailed_metric: true, ...limit(1) },
    { key: 'k', value: 'v', value_to_metric: true, ...limit(2) },
  ],
  wildcards: [
    { key: 'path', value: '/api/*/do/*/now', ...limit(1) },
    { key: 'path', value: '/x*', ...limit(2) },
    { key: 'file', value: 'shared/*', share_threshold: true, ...limit(2) },
    { key: 'file', value: 'own/*', ...limit(1) },
  ],
}

const site = shareDomains(DOMAINS)

async function askTimes(times: number, domain: string, ...lists: readonly (readonly string[])[]) {
  const descriptors = lists.map((entries) => descriptor(entries))
  const codes: string[] = []
  for (let time = 0; time < times; time++) codes.push((await site.client.ask(domain, descriptors)).overallCode)
  return codes
}

test('a limit by key and value', async () => {
  const { overallCode, statuses } = await site.client.ask('values', [descriptor(['db', 'other'])])
  expect(overallCode).toBe('OK')
  expect(statuses).toMatchObject([
    { code: 'OK', currentLimit: { requestsPerUnit: 3, unit: 'SECOND' }, limitRemaining: 2 },
  ])
  expect(await askTimes(3, 'values', ['db', 'people'])).toEqual(['OK', 'OK', 'OVER_LIMIT'])
  expect(await askTimes(3, 'values', ['db', 'unknown'])).toEqual(['OK', 'OK', 'OK'])
})

test('nested descriptors, one count for each value, and several descriptors of a request', async () => {
  const both = [
    ['kind', 'ad', 'to', '1'],
    ['to', '1'],
  ]
  expect(await askTimes(3, 'nested', ...both)).toEqual(['OK', 'OK', 'OVER_LIMIT'])
  // What was refused has charged the other descriptor nothing.
  expect(await askTimes(3, 'nested', ['to', '1'])).toEqual(['OK', 'OK', 'OVER_LIMIT'])
  expect(await askTimes(1, 'nested', ['kind', 'ad', 'to', '2'])).toEqual(['OK'])
})

test('key and value come before the key alone, 0 refuses, and no rate limit admits', async () => {
  expect(await askTimes(3, 'order', ['address', '192.0.2.1'])).toEqual(['OK', 'OK', 'OVER_LIMIT'])
  expect(await askTimes(1, 'order', ['address', '192.0.2.2'])).toEqual(['OK'])
  expect(await askTimes(1, 'order', ['address', '192.0.2.5'])).toEqual(['OVER_LIMIT'])
  expect(await askTimes(4, 'order', ['address', '192.0.2.6'])).toEqual(['OK', 'OK', 'OK', 'OK'])
})

test('a descriptor matches only at its own depth', async () => {
  expect(await askTimes(2, 'depth', ['a', 'b', 'e', 'f'])).toEqual(['OK', 'OK'])
  expect(await askTimes(2, 'depth', ['c', 'd'])).toEqual(['OK', 'OK'])
  expect(await askTimes(2, 'depth', ['c', 'd', 'e', 'f'])).toEqual(['OK', 'OVER_LIMIT'])
})

test('an unlimited descriptor has the largest number remaining', async () => {
  const { statuses } = await site.client.ask('unlimited', [descriptor(['free', 'x']), descriptor(['paid', 'x'])])
  expect(statuses).toMatchObject([
    { code: 'OK', currentLimit: null, limitRemaining: 4_294_967_295 },
    { code: 'OK', currentLimit: { requestsPerUnit: 1, unit: 'MINUTE' }, limitRemaining: 0 },
  ])
})

test('shadow mode refuses nothing', async () => {
  expect(await askTimes(3, 'shadow', ['service', 's', 'user', 'a'])).toEqual(['OK', 'OK', 'OK'])
  expect(await askTimes(2, 'shadow', ['service', 's', 'user', 'b'])).toEqual(['OK', 'OVER_LIMIT'])
})

test('a rate limit that another replaces is not counted', async () => {
  const both = [
    ['k1', 'v', 'user', 'u'],
    ['k2', 'v', 'user', 'u'],
  ]
  expect(await askTimes(3, 'replaces', ...both)).toEqual(['OK', 'OK', 'OVER_LIMIT'])
  expect(await askTimes(2, 'replaces', ['k1', 'v', 'user', 'u'])).toEqual(['OK', 'OVER_LIMIT'])
})

test('keys of metrics change no decision', async () => {
  expect(await askTimes(2, 'metrics', ['k', 'other'])).toEqual(['OK', 'OVER_LIMIT'])
  expect(await askTimes(3, 'metrics', ['k', 'v'])).toEqual(['OK', 'OK', 'OVER_LIMIT'])
})

test('wildcards anywhere in a value, each value with its own count unless it is shared', async () => {
  expect(await askTimes(2, 'wildcards', ['path', '/api/1/do/2/now'])).toEqual(['OK', 'OVER_LIMIT'])
  expect(await askTimes(2, 'wildcards', ['path', '/api/1/do/now'])).toEqual(['OK', 'OK'])
  expect(await askTimes(3, 'wildcards', ['path', '/xyz'])).toEqual(['OK', 'OK', 'OVER_LIMIT'])
  for (const name of ['a', 'b']) expect(await askTimes(1, 'wildcards', ['file', `shared/${name}`])).toEqual(['OK'])
  expect(await askTimes(1, 'wildcards', ['file', 'shared/c'])).toEqual(['OVER_LIMIT'])
  for (const name of ['a', 'b']) expect(await askTimes(1, 'wildcards', ['file', `own/${name}`])).toEqual(['OK'])
})

test('an unknown domain limits nothing; an empty one, and no descriptors, are errors', async () => {
  expect(await askTimes(1, 'nowhere', ['a', 'b'])).toEqual(['OK'])
  await expect(site.client.ask('', [descriptor(['a', 'b'])])).rejects.toThrow(
    '2 UNKNOWN: expected a domain that is not empty',
  )
  await expect(site.client.ask('values', [])).rejects.toThrow('2 UNKNOWN: expected at least one descriptor')
})
