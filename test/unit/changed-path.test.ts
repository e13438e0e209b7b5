import { expect, test } from 'vitest'
import { markIfChanged } from '../../src/http/request/changed-path.ts'
import type { RequestPath } from '../../src/http/request/target.ts'

const PATH: RequestPath = { canonical: '/a', withSlash: '/a', ambiguity: undefined }
const AMBIGUITY = { prefix: '/', mayGoUp: true }

test.each([
  '/',
  '/a',
  '/a.b',
  '/.a',
  '/a.',
  '/...',
  '/a/.../b',
  '/%2e%2e%2e',
  '/a?/../b',
  '/a?\\#ä',
  '?a',
  '',
  undefined,
])('markIfChanged() leaves %j, which no parser of URLs changes', (url) => expect(markIfChanged(PATH, url)).toBe(PATH))

test.each([
  ...['a', '*', 'http://a/', '/../a', '/a/..', '/a/../b', '/./a', '/a/.', '..', './a', '/%2e/a', '/a/%2E%2e', '/.%2e'],
  ...['/a\\b', '/a#b', '/ä', '/a b', '/a\t', '/a#?b'],
])('markIfChanged() marks %j, which parsers of URLs change', (url) => {
  expect(markIfChanged(PATH, url)).toEqual({ ...PATH, ambiguity: { ...AMBIGUITY, decoded: '/a' } })
})

test('markIfChanged() keeps how an ambiguous path is decoded', () => {
  const path = { ...PATH, ambiguity: { prefix: '/a', mayGoUp: false, decoded: '/b' } }
  expect(markIfChanged(path, '/a/../b')).toEqual({ ...PATH, ambiguity: { ...AMBIGUITY, decoded: '/b' } })
})
