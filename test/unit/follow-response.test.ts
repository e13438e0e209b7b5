import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import type { CostTerm, ReadCost } from '../../src/core/model/cost.ts'
import { createPathReader } from '../../src/http/request/target.ts'
import { createFollowResponse } from '../../src/http/response/follow-response.ts'
import { callContext } from '../support/call-context.ts'
import { expectProperty } from '../support/property.ts'

const START_MS = 1_700_000_000_000

const json = (name: string, weight = 1): CostTerm => {
  const paths = name.split('|').map((pointer) => pointer.slice(1).split('/'))
  return { kind: 'json', name, paths, isOptional: false, weight }
}
const INPUT = json('/usage/input_tokens')
const OUTPUT = json('/usage/output_tokens')
const BYTES: CostTerm = { kind: 'bytes', weight: 1 }
const TERMS: readonly CostTerm[] = [
  ...[INPUT, OUTPUT, BYTES, { kind: 'ms', weight: 1 } as const],
  { kind: 'header', name: 'x-cost', weight: 1 },
  json('/message/usage/input_tokens'),
]

const SETTLEMENT = { terms: TERMS, prepare() {}, readHead: () => undefined }

interface Sent {
  readonly chunks: readonly (string | Uint8Array)[]
  readonly type?: string
  readonly headers?: Readonly<Record<string, string>>
  /** The API breaks off after its chunks. */
  readonly isBroken?: boolean
  /** The API sends its chunks but the last, and then nothing. */
  readonly isStuck?: boolean
  readonly method?: string
  /** With `on_disconnect = "abort"`. */
  readonly isAborted?: boolean
}

/** Sends chunks through. @param read reads the response as the client does */
async function measure(
  {
    chunks,
    type = 'application/json',
    headers = {},
    isBroken = false,
    isStuck = false,
    method = 'POST',
    isAborted = false,
  }: Sent,
  read: (response: Response, leave: () => void) => Promise<string> = (response) => response.text(),
) {
  const encoder = new TextEncoder()
  const left = [...chunks]
  let isCanceled = false
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      const chunk = left.shift()
      if (isStuck && left.length === 0) return new Promise<void>(() => {})
      if (chunk !== undefined) controller.enqueue(typeof chunk === 'string' ? encoder.encode(chunk) : chunk)
      else if (isBroken) controller.error(new Error('broken off'))
      else controller.close()
      return undefined
    },
    cancel() {
      isCanceled = true
    },
  })
  const client = new AbortController()
  let nowMs = START_MS
  const limiter = { findCharges: async () => [], decideCharges: () => expect.unreachable() }
  const followResponse = createFollowResponse({ limiter, keepsEncoding: true, now: () => nowMs })
  const settled: (number | string)[][] = []
  const steps: string[] = []
  const hold = { renewEveryMs: 1_000, release: async () => void steps.push('released'), renew: async () => {} }
  const cost = {
    terms: TERMS,
    limits: [],
    advance: async () => void steps.push('advanced'),
    async settle(read: ReadCost) {
      const readings = TERMS.map(read)
      settled.push(readings.map((each) => (each.kind === 'told' ? each.count : each.count || each.reason)))
      await Promise.resolve()
      steps.push('settled')
    },
  }
  const background: Promise<unknown>[] = []
  const request = new Request('https://gateway.example/', { method, signal: client.signal })
  const exchange = { request, path: createPathReader()('/'), context: callContext(background) }
  const response = followResponse(
    new Response(body, { headers: { 'Content-Type': type, ...headers } }),
    { outcome: 'admitted', limits: [], cost, hold, settlement: { ...SETTLEMENT, isAborted } },
    exchange,
    START_MS,
  )
  nowMs += 250
  const seen = await read(response, () => client.abort()).catch((error: Error) => error)
  await Promise.all(background)
  const [costs = []] = settled
  expect(settled.length).toBe(1)
  // A slot that were free before would admit a request that does not know of this cost.
  expect(steps.slice(-2)).toEqual(['settled', 'released'])
  return { seen, costs, isCanceled, left: left.length, steps: steps.slice(0, -2) }
}

const BODY = JSON.stringify({ id: 1, usage: { input_tokens: 11, output_tokens: 7 }, text: 'äöü' })
const OPENAI = [
  'data: {"choices":[{"delta":{"content":"usage"}}]}\n\n',
  'data: {"choices":[{"delta":{"content":"of \\"usage\\""}}],"usage":null}\n\n',
  'data: {"choices":[],"usage":{"input_tokens":11,"output_tokens":7}}\n\ndata: [DONE]\n\n',
]
const ANTHROPIC = [
  'event: message_start\r\ndata: {"type":"message_start","message":{"usage":{"input_tokens":11,"output_tokens":1}}}\r\n\r\n',
  ': ping\r\n\r\nevent: content_block_delta\r\ndata: {"type":"content_block_delta","delta":{"text":"hé"}}\r\n\r\n',
  'event: message_delta\r\ndata: {"type":"message_delta",\r\ndata: "usage":{"output_tokens":7}}\r\n\r\n',
]

describe('followResponse() reads costs', () => {
  test.each([
    ['JSON', [BODY], 'application/json; charset=utf-8'],
    ['JSON of another kind', [BODY], 'application/problem+json'],
    ['a stream of OpenAI', OPENAI, 'text/event-stream'],
    ['a stream of Anthropic', ANTHROPIC, 'text/event-stream; charset=utf-8'],
    [
      'a stream whose last event has no end',
      ['data: {"usage":{"input_tokens":11,"output_tokens":7}}'],
      'text/event-stream',
    ],
  ])('of %s, however it is cut into chunks, and passes it on unchanged', (_, texts, type) =>
    expectProperty(
      fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 40 }), async (sizes) => {
        const bytes = new TextEncoder().encode(texts.join(''))
        const chunks: Uint8Array[] = []
        for (let at = 0, i = 0; at < bytes.length; i++) {
          const size = sizes[i % sizes.length] as number
          chunks.push(bytes.slice(at, at + size))
          at += size
        }
        const { seen, costs } = await measure({ chunks, type, headers: { 'X-Cost': '3' } })
        expect(seen).toBe(texts.join(''))
        // Anthropic tells what went in within its message.
        const [own, ofMessage] = texts === ANTHROPIC ? ['no_member', 11] : [11, 'no_member']
        expect(costs).toEqual([own, 7, bytes.length, 250, 3, ofMessage])
      }),
      200,
    ),
  )

  const gzipped = gzipSync(BODY)
  const both = <T>(value: T) => [value, value] as const
  test.each<readonly [what: string, Sent, costs: readonly (number | string)[]]>([
    ['gzip', { chunks: [gzipped], headers: { 'Content-Encoding': 'gzip' } }, [11, 7, gzipped.length]],
    ['what a runtime has decoded', { chunks: [BODY], headers: { 'Content-Encoding': 'br' } }, [11, 7, 70]],
    ['what is not encoded', { chunks: [BODY], headers: { 'Content-Encoding': 'identity' } }, [11, 7, 70]],
    ['an encoding that is not known', { chunks: [gzipped], headers: { 'Content-Encoding': 'x' } }, both('encoding')],
    [
      'what breaks its encoding',
      { chunks: [gzipped.subarray(0, 40)], headers: { 'Content-Encoding': 'gzip' } },
      both('encoding'),
    ],
    ['no type', { chunks: [BODY], type: '' }, [11, 7, 70, 250]],
    ['text, which a client may have written', { chunks: [BODY], type: 'text/plain' }, [...both('type'), 70, 250]],
    ['UTF-16', { chunks: [Buffer.from(BODY, 'utf16le')] }, [11, 7]],
    ['JSON of any size', { chunks: [`{"a":"${'x'.repeat(262_144)}",`, BODY.slice(1)] }, [11, 7, 262_221, 250]],
    ['a list', { chunks: [`[${BODY},${BODY}]`] }, [22, 14]],
    ['lines', { chunks: ['{"a":1}\n', BODY, '\n'] }, [11, 7]],
    ['what is no JSON', { chunks: ['<p>"usage"</p>'] }, [...both('type'), 14, 250]],
    ['JSONP', { chunks: [`/**/ f(${BODY})`] }, both('type')],
    ['a body without', { chunks: ['{"usage":{}}'] }, [...both('no_member'), 12, 250]],
    ['text, or below zero', { chunks: ['{"usage":{"input_tokens":"5","output_tokens":-1}}'] }, both('no_member')],
    ['what ends too early', { chunks: ['{"usage":{"input_tokens":5'] }, [...both('no_member'), 26, 250]],
    ['nothing', { chunks: [] }, both('no_body')],
    // What was told until then may not be all.
    [
      'a stream that broke off',
      { chunks: [OPENAI[2] as string, 'data: {'], type: 'text/event-stream', isBroken: true },
      [11, 7, 89],
    ],
    ['JSON that broke off', { chunks: ['{"usage":'], isBroken: true }, [...both('broken'), 9, 250]],
  ])('of %s', async (_, sent, costs) => {
    expect((await measure(sent)).costs.slice(0, costs.length)).toEqual(costs)
  })

  test('of events of any length', async () => {
    const long = `data: {"usage":{"input_tokens":11},"x":"${'x'.repeat(70_000)}"}\n\n`
    const { costs, seen } = await measure({ chunks: [long], type: 'text/event-stream' })
    expect(costs.slice(0, 2)).toEqual([11, 'no_member'])
    expect(seen).toBe(long)
  })

  test('of a response to HEAD at once, by its head', async () => {
    const { costs } = await measure({ chunks: [], headers: { 'X-Cost': '9' }, method: 'HEAD' }, async () => '')
    expect(costs).toEqual([...both('no_body'), 0, 0, 9, 'no_body'])
  })
})

async function readOne({ body }: Response) {
  const reader = body?.getReader()
  await reader?.read()
  return reader
}

describe('when the client goes', () => {
  test('the rest of JSON is read, because it tells the cost', async () => {
    const chunks = ['{"a":1,', '"usage":{"input_tokens":11,', '"output_tokens":7}}']
    const { costs, left } = await measure({ chunks }, async (response, leave) => {
      const reader = await readOne(response)
      leave()
      await reader?.cancel()
      return ''
    })
    expect(costs.slice(0, 2)).toEqual([11, 7])
    expect(left).toBe(0)
  })

  test.each([true, false])(
    'the rest of a stream is read for its cost, and for half a minute at most: it ends, %j',
    async (ends) => {
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
      onTestFinished(() => void vi.useRealTimers())
      const chunks = [
        ANTHROPIC[0] as string,
        ...Array.from({ length: 50 }, () => 'data: {}\n\n'),
        ANTHROPIC[2] as string,
      ]
      const sent = { chunks, type: 'text/event-stream', ...(!ends && { isStuck: true }) }
      const { costs, left, isCanceled } = await measure(sent, async (response, leave) => {
        const reader = await readOne(response)
        leave()
        await reader?.cancel()
        if (!ends) {
          await vi.advanceTimersByTimeAsync(29_999)
          expect(vi.getTimerCount()).toBe(1)
          await vi.advanceTimersByTimeAsync(1)
        }
        return ''
      })
      expect([costs[1], costs.at(-1)]).toEqual(ends ? [7, 11] : ['too_late', 11])
      expect([isCanceled, left]).toEqual([!ends, 0])
      expect(vi.getTimerCount()).toBe(0)
    },
  )

  test('what tells no cost is canceled', async () => {
    const chunks = Array.from({ length: 50 }, () => 'x')
    const { costs, left, isCanceled } = await measure({ chunks, type: 'text/plain' }, async (response, leave) => {
      const reader = await readOne(response)
      leave()
      await reader?.cancel()
      return ''
    })
    expect(isCanceled).toBe(true)
    expect(left).toBeGreaterThan(0)
    expect(costs[2]).toBeLessThanOrEqual(50 - left)
  })

  test('nothing more is read of what is to be aborted, though it would tell the cost', async () => {
    const chunks = [ANTHROPIC[0] as string, ...Array.from({ length: 50 }, () => 'data: {}\n\n'), ANTHROPIC[2] as string]
    const sent = { chunks, type: 'text/event-stream', isAborted: true }
    const { costs, left, isCanceled } = await measure(sent, async (response, leave) => {
      const reader = await readOne(response)
      leave()
      await reader?.cancel()
      return ''
    })
    expect([isCanceled, left > 0, costs[1], costs.at(-1)]).toEqual([true, true, 'left', 11])
  })
})

test('what is measured is charged every five seconds while a response lasts, also of a client that reads nothing', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  onTestFinished(() => void vi.useRealTimers())
  const { steps } = await measure({ chunks: ['a', 'b'] }, async (response) => {
    const reader = await readOne(response)
    await vi.advanceTimersByTimeAsync(15_000)
    while (!(await reader?.read())?.done);
    return ''
  })
  expect(steps).toEqual(['advanced', 'advanced', 'advanced'])
  expect(vi.getTimerCount()).toBe(0)
})
