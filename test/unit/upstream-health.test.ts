import { expect, test } from 'vitest'
import { tellsOverload } from '../../src/shedding/upstream-health.ts'

const GET = new Request('https://g.example/')
const POST = new Request('https://g.example/', { method: 'POST', body: 'x' })
const answer = (status: number, retryAfter = false) =>
  new Response(null, { status, ...(retryAfter && { headers: { 'Retry-After': '1' } }) })

test.each([502, 504])(
  'tellsOverload() holds %d against the upstream, but not where a client may be to blame',
  (status) => {
    expect([tellsOverload(answer(status), GET), tellsOverload(answer(status), POST)]).toEqual([true, false])
  },
)

test.each([429, 503])(
  'tellsOverload() takes %d with Retry-After for what it says, and without for nothing',
  (status) => {
    for (const request of [GET, POST]) {
      expect([tellsOverload(answer(status, true), request), tellsOverload(answer(status), request)]).toEqual([
        true,
        false,
      ])
    }
  },
)
