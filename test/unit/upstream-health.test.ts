import { expect, test } from 'vitest'
import { signalsOverload } from '../../src/http/response/exchange.ts'

const GET = new Request('https://g.example/')
const POST = new Request('https://g.example/', { method: 'POST', body: 'x' })
const answer = (status: number, retryAfter = false) =>
  new Response(null, { status, ...(retryAfter && { headers: { 'Retry-After': '1' } }) })

test.each([502, 504])(
  'signalsOverload() holds %d against the upstream, but not where a client may be to blame',
  (status) => {
    expect([signalsOverload(answer(status), GET), signalsOverload(answer(status), POST)]).toEqual([true, false])
  },
)

test('signalsOverload() takes 503 with Retry-After for what it says, and without for nothing', () => {
  for (const request of [GET, POST]) {
    expect([signalsOverload(answer(503, true), request), signalsOverload(answer(503), request)]).toEqual([true, false])
  }
})

test('signalsOverload() takes 429 for what it says: that one caller sends too many requests', () => {
  expect([signalsOverload(answer(429, true), GET), signalsOverload(answer(429), GET)]).toEqual([false, false])
})
