/** Answers of APIs that say what they have used, in every form that a client may choose, and the API's own record of it. */
import { Buffer } from 'node:buffer'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { expect } from 'vitest'
import { decorate } from '../../../src/core/engine/stages/stage.ts'
import type { StoreCharge } from '../../../src/core/model/charge.ts'
import type { Store } from '../../../src/core/model/store.ts'
import { MemoryStore } from '../../../src/core/store/memory/memory-store.ts'

/** One term, for all shapes. */
export const ACTUAL_COST =
  'json:/usage/total_tokens|/response/usage/total_tokens|/usageMetadata/totalTokenCount|/-/usageMetadata/totalTokenCount|/eval_count|/extensions/cost/actual|/items/1/cost'
/** What a policy says of the untold. */
export const UNTOLD = 700

interface Shape {
  /** Writes an answer that has used so many units. @param padding a text that stands before the units are told */
  write(used: number, padding: string): string
  readonly type: string
  /** Left out: whoever reads all of it knows what it has used. */
  readonly isUntold?: true
}

const events = (...data: readonly unknown[]) =>
  [...data.map((each) => JSON.stringify(each)), '[DONE]'].map((each) => `data: ${each}\n\n`).join('')
const JSON_TYPE = 'application/json'
const STREAM_TYPE = 'text/event-stream'

export const SHAPES: Readonly<Record<string, Shape>> = {
  'JSON with the usage at its end': {
    write: (used, padding) =>
      JSON.stringify({ data: [{ text: padding, n: [0.5, -1e-3] }], usage: { total_tokens: used } }),
    type: JSON_TYPE,
  },
  'JSON with escaped names': {
    write: (used, padding) =>
      `{ "text" : ${JSON.stringify(padding)}, "\\u0075sage" :\n{ "total\\u005ftokens" : ${used} } }`,
    type: 'application/problem+json',
  },
  'text of a model that was told to say so': {
    write: () => '{"usage":{"total_tokens":1}}',
    type: 'text/plain',
    isUntold: true,
  },
  'a list index': {
    write: (used, padding) => JSON.stringify({ items: [{ cost: 1, text: padding }, { cost: used }] }),
    type: 'application/vnd.api+json',
  },
  'a batch': {
    write: (used, padding) =>
      JSON.stringify([
        { data: padding, extensions: { cost: { actual: used - 3 } } },
        { extensions: { cost: { actual: 3 } } },
      ]),
    type: JSON_TYPE,
  },
  'a batch of which one item says nothing': {
    write: (used, padding) => JSON.stringify([{ errors: [padding] }, { extensions: { cost: { actual: used } } }]),
    type: JSON_TYPE,
    isUntold: true,
  },
  'events with the usage in the last chunk': {
    write: (used, padding) =>
      events(
        { choices: [{ delta: { content: padding } }], usage: null },
        { choices: [], usage: { total_tokens: used } },
      ),
    type: STREAM_TYPE,
  },
  'events without usage, the default': {
    write: (_, padding) => events({ choices: [{ delta: { content: padding } }] }, { choices: [] }),
    type: STREAM_TYPE,
    isUntold: true,
  },
  'one long event that repeats all': {
    write: (used, padding) =>
      `event: response.created\r\ndata: {"type":"response.created"}\r\n\r\n: ping\r\n\r\nevent: response.completed\r\ndata: ${JSON.stringify({ response: { instructions: padding, usage: { total_tokens: used } } })}\r\n\r\n`,
    type: `${STREAM_TYPE}; charset=utf-8`,
  },
  'events whose usage grows': {
    write: (used, padding) =>
      events(
        { usageMetadata: { totalTokenCount: 2 } },
        { candidates: [padding], usageMetadata: { totalTokenCount: used - 1 } },
        { usageMetadata: { totalTokenCount: used } },
      ).replace('data: [DONE]\n\n', ''),
    type: STREAM_TYPE,
  },
  'a list whose usage grows': {
    write: (used, padding) =>
      `[${JSON.stringify({ usageMetadata: { totalTokenCount: 2 } })}\n,\r\n${JSON.stringify({ candidates: [padding], usageMetadata: { totalTokenCount: used } })}\n]`,
    type: JSON_TYPE,
  },
  lines: {
    write: (used, padding) => `{"message":${JSON.stringify(padding)}}\n{"done":true,"eval_count":${used}}\n`,
    type: 'application/x-ndjson',
  },
  'JSON of no type': { write: (used, padding) => JSON.stringify({ padding, eval_count: used }), type: '' },
  JSONP: {
    write: (used) => `/**/ typeof f === 'function' && f({"eval_count":${used}});`,
    type: 'text/javascript',
    isUntold: true,
  },
  'a page': { write: (_, padding) => `<!doctype html><p>${padding}`, type: 'text/html', isUntold: true },
  nothing: { write: () => '', type: JSON_TYPE, isUntold: true },
}

const CHARSETS: Readonly<Record<string, { encode(text: string): Buffer; readonly isUntold?: true }>> = {
  utf8: { encode: (text) => Buffer.from(text) },
  'utf8 with a mark': { encode: (text) => Buffer.from(`\ufeff${text}`) },
  utf16le: { encode: (text) => Buffer.from(text, 'utf16le') },
  utf16be: { encode: (text) => Buffer.from(text, 'utf16le').swap16() },
  utf32be: {
    encode: (text) => Buffer.from([...text].flatMap((c) => [0, 0, c.charCodeAt(0) >> 8, c.charCodeAt(0) & 255])),
    isUntold: true,
  },
}

/** What `Content-Encoding` says, and what is done. */
const ENCODINGS: Readonly<
  Record<string, { readonly name: string; encode(bytes: Buffer): Buffer; readonly isUntold?: true }>
> = {
  none: { name: '', encode: (bytes) => bytes },
  identity: { name: 'identity', encode: (bytes) => bytes },
  gzip: { name: 'gzip', encode: (bytes) => gzipSync(bytes) },
  deflate: { name: 'deflate', encode: (bytes) => deflateSync(bytes) },
  br: { name: 'br', encode: (bytes) => brotliCompressSync(bytes) },
  unknown: { name: 'x-own', encode: (bytes) => gzipSync(bytes), isUntold: true },
}

export interface CostCase {
  readonly shape: string
  readonly charset: string
  readonly encoding: string
  readonly used: number
  readonly padding: number
  /** Bytes of each chunk. */
  readonly chunk: number
  readonly method: 'GET' | 'POST' | 'HEAD'
  readonly status: 200 | 206
  /** The client leaves when it has seen the beginning. */
  readonly leaves: boolean
}

export const costCase: fc.Arbitrary<CostCase> = fc
  .record({
    shape: fc.constantFrom(...Object.keys(SHAPES)),
    charset: fc.oneof({ arbitrary: fc.constant('utf8'), weight: 4 }, fc.constantFrom(...Object.keys(CHARSETS))),
    encoding: fc.constantFrom(...Object.keys(ENCODINGS)),
    used: fc.integer({ min: 5, max: 5_000 }),
    padding: fc.constantFrom(0, 10, 3_000, 300_000),
    chunk: fc.constantFrom(1, 7, 100, 16_384, 1_000_000),
    method: fc.oneof(
      { arbitrary: fc.constant('POST' as const), weight: 4 },
      fc.constantFrom('GET' as const, 'HEAD' as const),
    ),
    status: fc.oneof({ arbitrary: fc.constant(200 as const), weight: 6 }, fc.constant(206 as const)),
    leaves: fc.oneof({ arbitrary: fc.constant(false), weight: 4 }, fc.constant(true)),
  })
  // Single bytes of much take long.
  .map((each) => ({ ...each, chunk: each.padding > 1_000 ? Math.max(each.chunk, 1_000) : each.chunk }))

/** Makes the answer of a case, in chunks. */
export function makeAnswer({ shape, charset, encoding, used, padding, chunk, status }: CostCase) {
  const { write, type } = SHAPES[shape] as Shape
  const { name, encode } = ENCODINGS[encoding] as (typeof ENCODINGS)[string]
  const text = write(used, 'usage "\\ü{'.repeat(padding / 10))
  const bytes = encode(CHARSETS[charset]?.encode(text) as Buffer)
  const chunks: Buffer[] = []
  for (let at = 0; at < bytes.length; at += chunk) chunks.push(bytes.subarray(at, at + chunk))
  const headers = { ...(type && { 'Content-Type': type }), ...(name && { 'Content-Encoding': name }) }
  return { status, headers, chunks }
}

/** Tests that whoever reads all of an answer knows what it has used. */
export function isReadable({ shape, charset, encoding, method, status }: CostCase): boolean {
  const isUntold = [SHAPES[shape], CHARSETS[charset], ENCODINGS[encoding]].some((each) => each?.isUntold)
  return !isUntold && method !== 'HEAD' && status === 200
}

/** A store that tells what it has charged, and when slots are free. */
export function recordStore() {
  const state = { charged: 0, released: 0 }
  const memory = new MemoryStore(Date.now)
  const ofTokens = ({ key }: StoreCharge) => key.includes(':tokens:')
  const store = decorate(memory, {
    async decide(request) {
      for (const charge of request.charges) if (ofTokens(charge)) state.charged += charge.cost
      return memory.decide(request)
    },
    async settle(differences, chargedAtMs) {
      for (const { charge, units } of differences) if (ofTokens(charge)) state.charged += units
      await memory.settle(differences, chargedAtMs)
    },
    async release(charges) {
      state.released++
      await memory.release(charges)
    },
  } satisfies Partial<Store>)
  return { state, store: { isRemote: false, timeoutMs: 1_000, open: () => store } }
}

interface Judged {
  readonly used: number
  /** Whoever is told must be charged just that. */
  readonly isKnown: boolean
  readonly charged: number
  /** How often it was said that it is not known. */
  readonly untold: number
}

/** Judges what a request was charged: what was used, or at least what the policy says, and then it is said. */
export function judgeCharge({ used, isKnown, charged, untold }: Judged): void {
  if (isKnown || untold === 0) expect([charged, untold]).toEqual([used, 0])
  else {
    expect(untold).toBe(1)
    expect(charged).toBeGreaterThanOrEqual(UNTOLD)
    expect(charged).toBeLessThanOrEqual(Math.max(UNTOLD, used))
  }
}
