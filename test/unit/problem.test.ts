import { expect, test } from 'vitest'
import { createProblemResponse, formatRetryAfter } from '../../src/http/response/problem.ts'

test('createProblemResponse() makes problem details that no cache may keep', async () => {
  const response = createProblemResponse({
    code: 'upstream_unreachable',
    status: 502,
    title: 'Bad Gateway',
    detail: 'Out of reach.',
  })
  expect(response.status).toBe(502)
  expect(response.headers.get('Content-Type')).toBe('application/problem+json')
  expect(response.headers.get('Cache-Control')).toBe('no-store')
  expect(await response.json()).toEqual({
    type: '/_sluice/errors#upstream_unreachable',
    title: 'Bad Gateway',
    status: 502,
    detail: 'Out of reach.',
    code: 'upstream_unreachable',
  })
})

test('createProblemResponse() takes a type, members and fields of its own', async () => {
  const response = createProblemResponse({
    type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
    code: 'limit_exceeded',
    status: 429,
    title: 'Too Many Requests',
    detail: 'Over the limit.',
    extensions: { 'violated-policies': ['default-1m'], retry_after_ms: 1_234 },
    headers: formatRetryAfter(1_234),
  })
  expect(response.headers.get('Retry-After')).toBe('2')
  expect(await response.json()).toEqual({
    type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
    title: 'Too Many Requests',
    status: 429,
    detail: 'Over the limit.',
    code: 'limit_exceeded',
    'violated-policies': ['default-1m'],
    retry_after_ms: 1_234,
  })
})

test.each([
  [0, '1'],
  [1, '1'],
  [1_000, '1'],
  [1_001, '2'],
  [59_999, '60'],
  [32_054_400_000, '32054400'],
])('formatRetryAfter() says %d ms in whole seconds, rounded up and at least one', (waitMs, seconds) => {
  expect(formatRetryAfter(waitMs)).toEqual({ 'Retry-After': seconds })
})
