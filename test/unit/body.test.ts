import { expect, test, vi } from 'vitest'
import { parsePointer } from '../../src/core/model/identity-source.ts'
import {
  hasPlainBody,
  readBody,
  readBodyParameter,
  readFormInJson,
  readParsed,
  readTypedJson,
  readUpTo,
} from '../../src/http/request/identity/body.ts'
import type { ReceivedRequest } from '../../src/http/request/received-request.ts'
import { readPlace } from '../support/read-place.ts'

const JSON_TYPE = 'application/json'

async function read(body: string | Uint8Array | undefined, pointer = '/id', headers: Record<string, string> = {}) {
  const request = new Request('https://gateway.example/', {
    method: 'POST',
    headers: { 'Content-Type': JSON_TYPE, ...headers },
    ...(body !== undefined && { body }),
  })
  const found = await readPlace('json', request, parsePointer(pointer) ?? [])
  // The body can still be proxied.
  const sent = typeof body === 'string' ? new TextEncoder().encode(body) : (body ?? new Uint8Array())
  expect(new Uint8Array(await request.arrayBuffer())).toEqual(sent)
  return found.kind === 'value' ? `=${found.value}` : found.kind
}

test.each([
  ['{"id":"X"}', '/id', '=X'],
  [' {\n"a" : [1, {"id": 2}],\t"id" :"X" } ', '/id', '=X'],
  ['{"id":7}', '/id', '=7'],
  ['{"id":"7"}', '/id', '=7'],
  ['{"id":0}', '/id', '=0'],
  ['{"id":-5}', '/id', '=-5'],
  ['{"id":" X "}', '/id', '=X'],
  ['{"i\\u0064":"\\u0058"}', '/id', '=X'],
  ['{"id":"a\\"},{\\"id\\":"}', '/id', '=a"},{"id":'],
  ['{"user":{"id":"X","a":{}},"id":"Y"}', '/user/id', '=X'],
  ['{"a":{"id":"Y"},"user":{"a":{"id":"Z"},"id":"X"}}', '/user/id', '=X'],
  ['[{"id":"X"},{"id":"Y"}]', '/1/id', '=Y'],
  ['{"ids":["X","Y",[],"Z"]}', '/ids/3', '=Z'],
  ['{"ids":[["X"],["Y","W"]]}', '/ids/1/1', '=W'],
  ['{"0":"X"}', '/0', '=X'],
  ['{"a/b":{"~":"X"}}', '/a~1b/~0', '=X'],
  ['{"":{"":"X"}}', '//', '=X'],
  ['{"__proto__":{"id":"X"}}', '/__proto__/id', '=X'],
])('readPart() reads %j by %j as %j', async (body, pointer, expected) => {
  expect(await read(body, pointer)).toBe(expected)
})

test.each([
  ['{}', '/id'],
  ['{"a":{"id":"X"}}', '/id'],
  ['{"id":null}', '/id'],
  ['{"id":""}', '/id'],
  ['{"id":"  "}', '/id'],
  ['{"id":"X"}', '/id/x'],
  ['[["X"]]', '/id'],
  ['["X"]', '/1'],
  ['{"ids":{"1":"X"}}', '/ids/0'],
  ['"X"', '/id'],
  ['', '/id'],
])('readPart() finds nothing in %j by %j', async (body, pointer) => {
  expect(await read(body, pointer)).toBe('none')
})

test.each([
  // Twice: parsers take the first or the last, whatever the case, or names that differ in signs.
  ...['{"id":"X","id":"Y"}', '{"id":"X","id":"X"}', '{"id":"X","Id":"Y"}', '{"ID":"X"}', '{"i\\u0064":"X","id":"Y"}'],
  ...['{"i_d":"X"}', '{"id ":"X","id":"Y"}', '{"\\u0130d":"X","id":"Y"}', '{"id":null,"id":"X"}'],
  // No string and no plain integer.
  ...['{"id":true}', '{"id":{}}', '{"id":[]}', '{"id":["X"]}', '{"id":{"$ne":1}}', '{"id":1.0}', '{"id":1e0}'],
  ...['{"id":-0}', '{"id":1234567890123456}', '{"id":0.1}', '{"id":"\\ud800"}', '{"id":"\\u0000X"}'],
  // No JSON to all.
  ...['{"id":"X"', '{"id":"X"}x', '{"id":"X"}{"id":"Y"}', '{id:"X"}', "{'id':'X'}", '{"id":"X",}', '{"id":"X"/**/}'],
  ...['\ufeff{"id":"X"}', 'id=X', '{"id":NaN}', '{"id":"\ufffd"}', '{"id":"X\u0000"}'],
  `{"id":"X","a":"${'x'.repeat(262_144)}"}`,
  `{"id":"X","a":[${'1,'.repeat(20_000)}1]}`,
])('readPart() takes %j for no identity', async (body) => {
  expect(await read(body)).toBe('ambiguous')
})

test('readPart() looks at every object on the way', async () => {
  expect(await read('{"user":{"id":"X"},"user":{"id":"Y"}}', '/user/id')).toBe('ambiguous')
  expect(await read('{"user":{"id":"X"},"User":{}}', '/user/id')).toBe('ambiguous')
  expect(await read('{"a":1,"a":2,"user":{"id":"X","b":1,"b":2}}', '/user/id')).toBe('=X')
})

test.each([
  ['application/json; charset=utf-8', '=X'],
  ['application/json;charset="UTF-8"', '=X'],
  ['application/vnd.api+json', '=X'],
  // Many an API asks for no type.
  ['text/plain', '=X'],
  ['application/x-www-form-urlencoded', '=X'],
  ['application/json; charset=utf-16', 'ambiguous'],
  ['application/json; charset=utf-7', 'ambiguous'],
  ['application/json; charset = utf-8', 'ambiguous'],
  ['application/json; charset=utf-8; charset=utf-7', 'ambiguous'],
])('readPart() reads a body of type %j as %j', async (type, expected) => {
  expect(await read('{"id":"X"}', '/id', { 'Content-Type': type })).toBe(expected)
})

test('readPart() reads neither what is encoded nor what is not in UTF-8', async () => {
  for (const coding of ['gzip', 'identity']) {
    expect(await read('{"id":"X"}', '/id', { 'Content-Encoding': coding })).toBe('ambiguous')
  }
  expect(await read(new Uint8Array([...'{"id":"'].map((sign) => sign.charCodeAt(0)).concat(0xff, 0x22, 0x7d)))).toBe(
    'ambiguous',
  )
  expect(await read(new Uint8Array([...'{"id":"X"}'].flatMap((sign) => [sign.charCodeAt(0), 0])))).toBe('ambiguous')
  expect(await read(undefined)).toBe('none')
})

test('readPart() reads a long prompt, also after a form was looked for', async () => {
  const body = JSON.stringify({ messages: [{ content: 'a "word", '.repeat(9_000) }], model: 'X' })
  expect(await read(body, '/model')).toBe('=X')
  const request = new Request('https://gateway.example/', {
    method: 'POST',
    body,
    headers: { 'Content-Type': 'application/json' },
  })
  expect(await readPlace('form', request, ['x'])).toEqual({ kind: 'ambiguous' })
  expect(await readPlace('json', request, ['model'])).toEqual({ kind: 'value', value: 'X' })
  expect(await request.text()).toBe(body)
})

test('readPart() bears any depth', async () => {
  const deep = `${'['.repeat(4_000)}${']'.repeat(4_000)}`
  expect(await read(`{"a":${deep},"id":"X"}`)).toBe('=X')
})

test('readPart() goes by what the application has parsed', async () => {
  const parsed = (parsedBody: unknown) =>
    readPlace('json', { method: 'POST', headers: new Headers(), parsedBody } as unknown as ReceivedRequest, [
      'user',
      'id',
    ])
  expect(await parsed({ user: { id: 'X' } })).toEqual({ kind: 'value', value: 'X' })
  expect(await parsed({ user: { id: 7 } })).toEqual({ kind: 'value', value: '7' })
  expect(await parsed({ user: {} })).toEqual({ kind: 'none' })
  expect(await parsed({ user: 'X' })).toEqual({ kind: 'none' })
  expect(await parsed({ user: { id: ['X'] } })).toEqual({ kind: 'ambiguous' })
  expect(await parsed(null)).toEqual({ kind: 'ambiguous' })
})

test('readPart() gives up on a body of unknown length that is too long, and leaves it whole for the proxy', async () => {
  const body = new TextEncoder().encode(`caller=${'x'.repeat(9_000)}`)
  const headers = { 'Content-Type': 'application/x-www-form-urlencoded' }
  const stream = new ReadableStream({
    start(controller) {
      for (let at = 0; at < body.length; at += 1_000) controller.enqueue(body.slice(at, at + 1_000))
      controller.close()
    },
  })
  const init = { method: 'POST', headers, body: stream, duplex: 'half' }
  const request = new Request('https://gateway.example/', init)
  expect(await readPlace('form', request, 'caller')).toEqual({ kind: 'ambiguous' })
  expect(new Uint8Array(await request.arrayBuffer())).toEqual(body)
})

const FORM = 'application/x-www-form-urlencoded'

async function readField(body: string | undefined, headers: Readonly<Record<string, string>>, method = 'POST') {
  const request = new Request('https://gateway.example/', { method, headers, ...(body !== undefined && { body }) })
  if (headers['Content-Type'] === '') request.headers.delete('Content-Type')
  const found = await readPlace('form', request, 'caller')
  // The body can still be proxied.
  expect(new Uint8Array(await request.arrayBuffer())).toEqual(new TextEncoder().encode(body ?? ''))
  return found.kind === 'value' ? found.value : found.kind
}

test.each([
  [FORM, 'X'],
  ['Application/X-WWW-Form-URLEncoded', 'X'],
  [`${FORM}; charset=UTF-8`, 'X'],
  [`${FORM};charset="utf-8"`, 'X'],
  [`${FORM};`, 'X'],
  // Bottle asks for no type.
  ['text/plain', 'ambiguous'],
  ['application/json', 'ambiguous'],
  // An API may take these for forms, in another charset or whole.
  [`${FORM}; charset=utf-7`, 'ambiguous'],
  [`${FORM}; charset=utf-8; charset=utf-16`, 'ambiguous'],
  [`${FORM}, text/plain`, 'ambiguous'],
  [`text/plain, ${FORM}`, 'ambiguous'],
  ['multipart/form-data; boundary=x', 'ambiguous'],
  ['', 'ambiguous'],
])('readPart() reads a form of type "%s" as %s', async (type, expected) => {
  expect(await readField('a=1&caller=X', { 'Content-Type': type })).toBe(expected)
  expect(await readField('a=1&caller=X', { 'Content-Type': type }, 'PUT')).toBe(expected)
})

test.each([
  ['text/plain', 'note'],
  ['application/json; charset=utf-8', '{"data":{"caller":"X"}}'],
  ['application/vnd.api+json', '{"data":{"caller":"X"}}'],
  ['image/png', '\x89PNG'],
  ['application/octet-stream', 'x=y'],
])('readPart() finds nothing in a body of type "%s" that holds no such field', async (type, body) => {
  expect(await readField(body, { 'Content-Type': type })).toBe('none')
})

test.each([
  ['application/x-www-form-urlencoded', 'caller=al', (request: Request) => readPlace('form', request, 'caller')],
  ['application/json', '{"caller":"al', (request: Request) => readPlace('json', request, ['caller'])],
])('a body of %s that stalls is ambiguous after ten seconds', async (type, begin, read) => {
  vi.useFakeTimers()
  try {
    const body = new ReadableStream({
      start: (controller) => controller.enqueue(new TextEncoder().encode(begin)),
    })
    const headers = { 'Content-Type': type }
    const reading = read(
      new Request('https://api.example/', { method: 'POST', headers, body, duplex: 'half' } as never),
    )
    await vi.advanceTimersByTimeAsync(9_000)
    expect(await Promise.race([reading, Promise.resolve('pending')])).toBe('pending')
    await vi.advanceTimersByTimeAsync(1_000)
    expect(await reading).toEqual({ kind: 'ambiguous' })
  } finally {
    vi.useRealTimers()
  }
})

test('readPart() does not read what only an API can decode', async () => {
  for (const coding of ['gzip', 'br', 'identity']) {
    expect(await readField('caller=X', { 'Content-Type': FORM, 'Content-Encoding': coding })).toBe('ambiguous')
  }
})

test('readPart() finds nothing where there is no body, and nothing under another name', async () => {
  expect(await readField(undefined, { 'Content-Type': FORM }, 'GET')).toBe('none')
  expect(await readField('b=1', { 'Content-Type': FORM })).toBe('none')
  expect(await readField('\ufeffcaller=X', { 'Content-Type': FORM })).toBe('ambiguous')
  expect(await readField('?caller=X', { 'Content-Type': FORM })).toBe('ambiguous')
})

test.each([
  ['?caller=X', FORM, 'caller=X', '=X'],
  ['?caller=Y', FORM, 'caller=X', 'ambiguous'],
  ['?caller=X', FORM, 'b=1', 'ambiguous'],
  ['?caller[]=X', FORM, 'caller=X', 'ambiguous'],
  ['?other=Y', FORM, 'caller=X', '=X'],
  ['', JSON_TYPE, '{"caller":"X"}', 'ambiguous'],
])('readPart() of %j and a body of type "%s", %j: %s', async (query, type, body, expected) => {
  const headers = { 'Content-Type': type }
  const request = new Request(`https://gateway.example/${query}`, { method: 'POST', headers, body })
  const found = await readPlace('form', request, 'caller')
  expect(found.kind === 'value' ? `=${found.value}` : found.kind).toBe(expected)
})

test.each([
  ['?caller=X', FORM, 'b=1', '=X'],
  ['?caller=X', FORM, 'caller=X', '=X'],
  ['?caller=X', FORM, 'caller=Y', 'ambiguous'],
  ['', FORM, 'caller=Y', 'ambiguous'],
  ['', FORM, 'b=1', 'none'],
  ['?caller=X', JSON_TYPE, '{"b":1}', '=X'],
  ['?caller=7', JSON_TYPE, '{"caller":7}', '=7'],
  ['?caller=X', JSON_TYPE, '{"Caller":"Y"}', 'ambiguous'],
  ['?caller=X', 'multipart/form-data; boundary=b', '--b--', 'ambiguous'],
  ['?caller=X', 'image/png', '\x89PNG', '=X'],
])('readPart() merges %j and a body of type "%s", %j: %s', async (query, type, body, expected) => {
  const headers = { 'Content-Type': type }
  const request = new Request(`https://gateway.example/${query}`, { method: 'POST', headers, body })
  const found = await readPlace('query', request, 'caller', true)
  expect(found.kind === 'value' ? `=${found.value}` : found.kind).toBe(expected)
})

test('a body is copied once, whatever policies and rules read of it', async () => {
  const request = new Request('https://gateway.example/?user=X', {
    method: 'POST',
    headers: { 'Content-Type': JSON_TYPE },
    body: '{"user":"X","id":7}',
  })
  const clone = vi.spyOn(request, 'clone')
  const found = [
    await readPlace('query', request, 'user', true),
    await readPlace('form', request, 'user'),
    await readPlace('json', request, ['id']),
  ]
  expect(found.map(({ kind }) => kind)).toEqual(['value', 'ambiguous', 'value'])
  expect(clone).toHaveBeenCalledTimes(1)
  expect(await request.json()).toEqual({ user: 'X', id: 7 })
})

test.each([
  ['application/json', '=X'],
  ['application/json; charset=utf8', '=X'],
  ['application/json; CHARSET="UTF-8" ; a=b', '=X'],
  ['application/json; charset=utf-8x', 'ambiguous'],
  ['application/json; charset=latin1; a="=utf-8"', 'ambiguous'],
  ['application/json; charset=x=utf-8', 'ambiguous'],
])('readJson() of the type "%s": %s', async (type, expected) => {
  expect(await read('{"id":"X"}', '/id', { 'Content-Type': type })).toBe(expected)
})

test.each([
  ['{"id":1.5}', 'ambiguous'],
  ['{"id":9007199254740993}', 'ambiguous'],
  ['{"id":123456789012345}', '=123456789012345'],
  ['{"id":-123456789012345}', '=-123456789012345'],
  ['{"id":1234567890123456}', 'ambiguous'],
  ['{"id":10}', '=10'],
  ['{"id":false}', 'ambiguous'],
  ['{"id":"\\ud83d\\ude00"}', '=\u{1f600}'],
  ['{"id":[]}', 'ambiguous'],
  ['{"a":["id","X"],"id":"Y"}', '=Y'],
  ['{"a":{"id":1},"b":[{"id":2}],"id":"Y"}', '=Y'],
  ['{"a":"id","id":"Y"}', '=Y'],
  [`{"id":"X","a":[${'1,'.repeat(19_995)}1]}`, '=X'],
  [`{"id":"X","a":"${','.repeat(20_000)}"}`, 'ambiguous'],
])('readJson() reads %j as %s', async (body, expected) => {
  expect(await read(body, '/id')).toBe(expected)
})

test.each([
  ['{"0":{"id":"X"}}', '/0/id', '=X'],
  ['[{"id":"X"},[{"id":"Y"}]]', '/1/0/id', '=Y'],
  ['[[1,2],[3,4]]', '/1/0', '=3'],
  ['{"a":[0,{"b":[1,"X"]}]}', '/a/1/b/1', '=X'],
  ['{"a":{"b":1},"0":"X"}', '/a/0', 'none'],
  ['[1,[2,3]]', '/1', 'ambiguous'],
  ['[1,2]', '/01', 'none'],
])('readJson() follows a pointer: %s by %s is %s', async (body, pointer, expected) => {
  expect(await read(body, pointer)).toBe(expected)
})

test.each<[parsedBody: unknown, kind: 'form' | 'json', expected: string]>([
  [{ id: 'X' }, 'form', '=X'],
  [{ id: 'X' }, 'json', '=X'],
  [{ id: 7 }, 'form', 'ambiguous'],
  [{ id: 7 }, 'json', '=7'],
  [{ id: 7.5 }, 'json', 'ambiguous'],
  [{ id: Number.NaN }, 'json', 'ambiguous'],
  [{ id: null }, 'form', 'ambiguous'],
  [{ id: null }, 'json', 'none'],
  [{ id: '' }, 'form', 'none'],
  [{}, 'form', 'none'],
  [{}, 'json', 'none'],
  [['X'], 'json', 'none'],
  ['id', 'form', 'ambiguous'],
  [null, 'json', 'ambiguous'],
  [undefined, 'form', 'ambiguous'],
])('readParsed() of %j as %s: %s', (parsedBody, kind, expected) => {
  const found = readParsed(parsedBody, ['id'], kind)
  expect(found.kind === 'value' ? `=${found.value}` : found.kind).toBe(expected)
})

function post(type: string, body?: string) {
  const headers = { 'Content-Type': type }
  return new Request('https://gateway.example/', { method: 'POST', headers, ...(body !== undefined && { body }) })
}

test.each<[type: string, body: string | undefined, isPlain: boolean]>([
  [FORM, 'a=b', true],
  [JSON_TYPE, '{}', true],
  ['application/x-json; charset=latin1', '{}', true],
  ['text/plain', 'a=b', false],
  ['multipart/form-data; boundary=x', 'x', false],
  [FORM, undefined, false],
  [JSON_TYPE, undefined, false],
  [FORM, 'x'.repeat(8_192), true],
  [FORM, 'x'.repeat(8_193), false],
  [JSON_TYPE, 'x'.repeat(8_193), true],
  [JSON_TYPE, 'x'.repeat(262_144), true],
  [JSON_TYPE, 'x'.repeat(262_145), false],
])('hasPlainBody() of the type "%s"', async (type, body, isPlain) => {
  expect(await hasPlainBody(post(type, body))).toBe(isPlain)
})

test.each<[type: string, body: string | undefined, parameter: string, typed: string, inJson: string]>([
  [FORM, 'id=X', '=X', 'none', '=X'],
  [FORM, 'b=1', 'none', 'none', 'none'],
  [JSON_TYPE, '{"id":"X"}', '=X', '=X', 'none'],
  [JSON_TYPE, '{"id":"X","a":"&id=Y"}', 'ambiguous', '=X', 'none'],
  ['text/plain', '{"id":"X"}', 'none', 'none', 'none'],
  ['text/plain', '{"a":"&id=Y&"}', 'ambiguous', 'none', '=Y'],
  ['text/plain', undefined, 'none', 'none', 'none'],
  ['text/plain', 'x'.repeat(8_193), 'ambiguous', 'none', 'none'],
])('of the type "%s", %j is read as a parameter, as typed JSON and as a form', async (type, body, ...expected) => {
  const read = [readBodyParameter, readTypedJson, readFormInJson] as const
  const [parameter, typed, inJson] = read
  const found = [
    await parameter(post(type, body), 'id'),
    await typed(post(type, body), ['id']),
    await inJson(post(type, body), 'id'),
  ]
  expect(found.map((one) => (one.kind === 'value' ? `=${one.value}` : one.kind))).toEqual(expected)
})

test.each([
  ...['audio/ogg', 'font/woff2', 'image/svg+xml', 'text/html', 'video/mp4', 'application/ld+json', 'application/xml'],
  ...['application/cbor', 'application/octet-stream', 'application/pdf', 'application/zip', 'application/gzip'],
  ...['application/graphql', 'application/x-ndjson', 'application/protobuf', 'application/x-protobuf'],
  ...['application/grpc', 'application/grpc+proto', ' text/plain ; charset=latin1', 'TEXT/PLAIN'],
])('no API takes %s for a form', async (type) => {
  expect(await readField('{}', { 'Content-Type': type })).toBe('none')
})

test.each([
  ...['application/x', 'model/obj', 'text', 'xtext/plain', 'text/plain x', 'application/pdfx', 'x application/pdf'],
  ...[
    'text/plain; boundary=x',
    'text/form',
    'text/x-url',
    'text/plain,text/html',
    'text/plain; multipart',
    'application/',
  ],
])('some API may take %s for a form', async (type) => {
  expect(await readField('x', { 'Content-Type': type })).toBe('ambiguous')
})

test('readBody() reads a body again only for more than it has read', async () => {
  const request = post(FORM, 'x'.repeat(9_000))
  const clone = vi.spyOn(request, 'clone')
  expect(await readBody(request, 100)).toBeUndefined()
  expect(await readBody(request, 100)).toBeUndefined()
  expect(await readBody(request)).toBeUndefined()
  expect(await readBody(request, 9_000)).toBe('x'.repeat(9_000))
  expect(await readBody(request, 8_999)).toBeUndefined()
  expect(await readBody(request, 10_000)).toBe('x'.repeat(9_000))
  const copied = clone.mock.calls.length
  expect(copied).toBeLessThanOrEqual(3)
})

test('readBody() copies nothing of a body that says it is too long', async () => {
  const headers = new Headers({ 'Content-Length': '101' })
  const clone = vi.fn(() => new Request('https://gateway.example/', { method: 'POST', body: 'x' }))
  const request = { method: 'POST', url: 'https://gateway.example/', headers, body: 'x', clone }
  expect(await readBody(request, 100)).toBeUndefined()
  expect(clone).not.toHaveBeenCalled()
  expect(await readBody({ ...request }, 101)).toBe('x')
  expect(clone.mock.calls).toEqual([[101]])
})

test('readBody() finds nothing in a body that breaks off', async () => {
  const body = new ReadableStream({ pull: (controller) => controller.error(new Error('gone')) })
  const clone = () => ({ body })
  expect(
    await readBody({ method: 'POST', url: 'https://gateway.example/', headers: new Headers(), body, clone }),
  ).toBeUndefined()
})

test('readUpTo() reads letters across chunks, and keeps a byte order mark', async () => {
  const bytes = new TextEncoder().encode('\ufeffé')
  const stream = () =>
    new ReadableStream<Uint8Array>({
      start(controller) {
        for (const byte of bytes) controller.enqueue(Uint8Array.of(byte))
        controller.close()
      },
    })
  expect([await readUpTo(5, stream()), await readUpTo(4, stream()), await readUpTo(5, null)]).toEqual([
    '\ufeffé',
    undefined,
    '',
  ])
  const broken = () => new Response(Uint8Array.of(0x61, 0xc3)).body
  expect(await readUpTo(5, broken())).toBe('a\ufffd')
  await expect(readUpTo(5, broken(), true)).rejects.toThrow(TypeError)
})
