import { expect, test, vi } from 'vitest'
import { readFormField, readMember } from '../../src/http/request/identity/body.ts'

test('readFormField() gives up on a body of unknown length that is too long, and leaves it whole for the proxy', async () => {
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
  expect(await readFormField(request, 'caller')).toEqual({ kind: 'ambiguous' })
  expect(new Uint8Array(await request.arrayBuffer())).toEqual(body)
})

const FORM = 'application/x-www-form-urlencoded'

async function reading(body: string | undefined, headers: Readonly<Record<string, string>>, method = 'POST') {
  const request = new Request('https://gateway.example/', { method, headers, ...(body !== undefined && { body }) })
  if (headers['Content-Type'] === '') request.headers.delete('Content-Type')
  const found = await readFormField(request, 'caller')
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
])('readFormField() reads a form of type "%s" as %s', async (type, expected) => {
  expect(await reading('a=1&caller=X', { 'Content-Type': type })).toBe(expected)
  expect(await reading('a=1&caller=X', { 'Content-Type': type }, 'PUT')).toBe(expected)
})

test.each([
  ['text/plain', 'note'],
  ['application/json; charset=utf-8', '{"caller":"X"}'],
  ['application/vnd.api+json', '{"data":{"caller":"X"}}'],
  ['image/png', '\x89PNG'],
  ['application/octet-stream', 'x=y'],
])('readFormField() finds nothing in a body of type "%s" that holds no such field', async (type, body) => {
  expect(await reading(body, { 'Content-Type': type })).toBe('none')
})

test.each([
  ['application/x-www-form-urlencoded', 'caller=al', (request: Request) => readFormField(request, 'caller')],
  ['application/json', '{"caller":"al', (request: Request) => readMember(request, ['caller'])],
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

test('readFormField() does not read what only an API can decode', async () => {
  for (const coding of ['gzip', 'br', 'identity']) {
    expect(await reading('caller=X', { 'Content-Type': FORM, 'Content-Encoding': coding })).toBe('ambiguous')
  }
})

test('readFormField() finds nothing where there is no body, and nothing under another name', async () => {
  expect(await reading(undefined, { 'Content-Type': FORM }, 'GET')).toBe('none')
  expect(await reading('b=1', { 'Content-Type': FORM })).toBe('none')
  expect(await reading('\ufeffcaller=X', { 'Content-Type': FORM })).toBe('ambiguous')
  expect(await reading('?caller=X', { 'Content-Type': FORM })).toBe('ambiguous')
})
