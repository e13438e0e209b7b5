import { expect, test } from 'vitest'
import { readPart } from '../../src/http/request/identity/request-parts.ts'

const FORM = 'application/x-www-form-urlencoded'
const JSON_TYPE = 'application/json'

interface Sent {
  readonly query?: string
  readonly cookie?: string
  readonly type?: string
  readonly body?: string
  readonly route?: string
  readonly path?: string
}

async function read(part: Parameters<typeof readPart>[0], sent: Sent, mergesParameters = true) {
  const { query = '', cookie, type, body, route = '* /*', path } = sent
  const headers = new Headers({ ...(cookie && { Cookie: cookie }), ...(type && { 'Content-Type': type }) })
  const init = { method: 'POST', headers, ...(body !== undefined && { body }) }
  const request = new Request(`https://gateway.example/${query}`, init)
  if (!type) request.headers.delete('Content-Type')
  const found = await readPart(part, ['id'], { request, route, path, mergesParameters })
  return found.kind === 'value' ? `=${found.value}` : found.kind
}

const BODY = { type: FORM, body: 'b=1' }

test.each<[part: Parameters<typeof readPart>[0], sent: Sent, merged: string, apart: string]>([
  ['query', { query: '?id=X' }, '=X', '=X'],
  ['query', { query: '?id=X', cookie: 'id=Y' }, 'ambiguous', '=X'],
  ['query', { query: '?id=X', cookie: 'id=X' }, '=X', '=X'],
  ['query', { cookie: 'id=X' }, 'ambiguous', 'none'],
  ['query', { query: '?id=X', type: FORM, body: 'id=Y' }, 'ambiguous', '=X'],
  ['query', { query: '?id=X', type: JSON_TYPE, body: '{"id":"Y"}' }, 'ambiguous', '=X'],
  ['query', { query: '?id=X', type: 'text/plain', body: '{"id":"Y"}' }, '=X', '=X'],
  ['query', { query: '?id=X', route: '* /u/:id', path: '/u/Y' }, 'ambiguous', '=X'],
  ['query', { query: '?id=X', route: '* /u/:id', path: '/u/X' }, '=X', '=X'],
  ['query', { query: '?id=X', route: '* /u/:id', path: '/u' }, '=X', '=X'],
  ['query', { query: '?id=X', route: '* /u/:other', path: '/u/Y' }, '=X', '=X'],
  ['query', { query: '?id=X', route: '* /id/*', path: '/id/Y' }, '=X', '=X'],
  ['query', { query: '?id=X', route: '* /:a/:id', path: '/Y/X' }, '=X', '=X'],
  ['query', { query: '?id=X', route: '* /:a/:id', path: '/X/Y' }, 'ambiguous', '=X'],
  ['query', { query: '?id=X', route: '* /u/:id' }, '=X', '=X'],
  ['query', { query: '?id=a%2Bb%26c%3Bd', route: '* /u/:id', path: '/u/a+b&c;d' }, '=a+b&c;d', '=a+b&c;d'],
  ['cookie', { cookie: 'id=X' }, '=X', '=X'],
  ['cookie', { cookie: 'id=X', query: '?id=Y' }, 'ambiguous', '=X'],
  ['cookie', { cookie: 'id=X', ...BODY }, '=X', '=X'],
  ['cookie', { cookie: 'id=X', type: FORM, body: 'id=Y' }, 'ambiguous', '=X'],
  ['cookie', { cookie: 'id=X', type: JSON_TYPE, body: '{"id":"Y"}' }, 'ambiguous', '=X'],
  // A body that nobody can read gets no session out of its limits.
  ['cookie', { cookie: 'id=X', type: 'multipart/form-data; boundary=x', body: 'x' }, '=X', '=X'],
  ['cookie', { cookie: 'id=X', type: 'text/plain', body: 'id=Y' }, '=X', '=X'],
  ['cookie', { cookie: 'id=X', type: FORM, body: `id=${'Y'.repeat(9_000)}` }, '=X', '=X'],
  ['cookie', { cookie: 'id=X', type: JSON_TYPE, body: `{"id":"Y","a":"${'x'.repeat(9_000)}"}` }, 'ambiguous', '=X'],
  ['cookie', { type: 'multipart/form-data; boundary=x', body: 'x' }, 'ambiguous', 'none'],
  ['form', { type: FORM, body: 'id=X' }, '=X', '=X'],
  ['form', { type: FORM, body: 'id=X', query: '?id=Y' }, 'ambiguous', 'ambiguous'],
  ['form', { type: FORM, body: 'id=X', cookie: 'id=Y' }, 'ambiguous', '=X'],
  ['json', { type: JSON_TYPE, body: '{"id":"X"}' }, '=X', '=X'],
  ['json', { type: JSON_TYPE, body: '{"id":"X"}', query: '?id=Y' }, 'ambiguous', 'ambiguous'],
  ['json', { type: JSON_TYPE, body: '{"id":"X"}', query: '?id=X' }, '=X', '=X'],
  ['json', { type: JSON_TYPE, body: '{"id":"X"}', cookie: 'id=Y' }, 'ambiguous', '=X'],
  // What some take for JSON may be a form to others.
  ['json', { type: 'text/plain', body: '{"id":"X","a":"&id=Y"}' }, 'ambiguous', 'ambiguous'],
  ['json', { type: JSON_TYPE, body: '{"id":"X","a":"&id=Y"}' }, '=X', '=X'],
  ['json', { type: FORM, body: '{"a":"&id=Y"}' }, 'ambiguous', 'ambiguous'],
  ['json', {}, 'none', 'none'],
])('readPart() of %s in %j: %s, or apart from the others %s', async (part, sent, merged, apart) => {
  expect([await read(part, sent), await read(part, sent, false)]).toEqual([merged, apart])
})
