/** Reads numbers of members from a body while it passes: decodes it, tells what form it has, and scans its JSON. */
import type { Transform } from 'node:stream'
import {
  type CostReading,
  type CostTerm,
  createReading,
  createUntold,
  type UntoldReason,
} from '../../core/model/cost.ts'
import { type FoundNumbers, MemberScanner } from './member-scanner.ts'

type MemberTerm = CostTerm & { readonly kind: 'json' }

export interface MemberReader {
  /** False once nothing more can be found. */
  readonly isOpen: boolean
  see(chunk: Uint8Array): void
  /** Waits until all that was seen has been read. */
  end(): Promise<void>
  /** Reads the number so far. @param ending why nothing more comes; undefined: the body has ended */
  read(term: MemberTerm, ending: UntoldReason | undefined): CostReading
}

/** Begins to read a body. @param encoding `Content-Encoding`, if any */
export function createMemberReader(terms: readonly MemberTerm[], encoding: string | null): MemberReader {
  const found: (FoundNumbers[number] | undefined)[] = []
  let problem: UntoldReason | undefined
  const scanner = new MemberScanner(
    terms.map(({ paths }) => paths),
    // Streams repeat what they have counted until then: the last one counts.
    (numbers) => {
      for (const [index, number] of numbers.entries()) if (number) found[index] = number
    },
  )
  const texts = createTextReader(scanner, listNames(terms), () => {
    problem ??= 'type'
  })
  const decoder = createDecoder(encoding, texts.see, () => {
    problem ??= 'encoding'
  })
  return {
    get isOpen() {
      return problem === undefined
    },
    see(chunk) {
      if (problem === undefined) decoder.see(chunk)
    },
    async end() {
      await decoder.end()
      texts.end()
    },
    read(term, ending) {
      const number = found[terms.indexOf(term)]
      const reason = ending ?? problem
      if (reason === undefined) {
        if (number?.isWhole) return createReading(number.value)
        if (term.isOptional && found.some((each) => each)) return createReading(number?.value ?? 0)
      }
      return createUntold(reason ?? 'no_member', number?.value)
    },
  }
}

interface Sink {
  see(chunk: Uint8Array): void
  end(): Promise<void>
}

/** No text of JSON or of events needs more to be told from what is encoded. */
const MIN_BYTES = 16

/** Functions of `node:zlib`, which every runtime has that has one. */
const DECODERS: Readonly<Record<string, string>> = {
  gzip: 'createGunzip',
  'x-gzip': 'createGunzip',
  deflate: 'createInflate',
  br: 'createBrotliDecompress',
  zstd: 'createZstdDecompress',
}

/**
 * Decodes what is encoded. A header may say so of what is not: runtimes hand out the bodies of `fetch` decoded, with the
 * header as it was.
 */
function createDecoder(encoding: string | null, onChunk: (chunk: Uint8Array) => void, onProblem: () => void): Sink {
  const codings = (encoding ?? '')
    .toLowerCase()
    .split(',')
    .map((each) => each.trim())
    .filter((each) => each !== '' && each !== 'identity')
  const [coding] = codings
  const plain: Sink = { see: onChunk, end: async () => {} }
  if (coding === undefined) return plain
  let first: Uint8Array = new Uint8Array()
  let sink: Sink | undefined
  const begin = () => {
    sink = isText(first) ? plain : codings.length === 1 ? createInflater(coding, onChunk, onProblem) : undefined
    if (sink) sink.see(first)
    else onProblem()
  }
  return {
    see(chunk) {
      if (sink) return sink.see(chunk)
      first = joinBytes(first, chunk)
      if (first.length >= MIN_BYTES) begin()
    },
    async end() {
      if (!sink && first.length > 0) begin()
      await sink?.end()
    },
  }
}

function createInflater(coding: string, onChunk: (chunk: Uint8Array) => void, onProblem: () => void): Sink | undefined {
  const { process } = globalThis as { process?: { getBuiltinModule?(name: string): unknown } }
  const zlib = process?.getBuiltinModule?.('node:zlib') as Record<string, undefined | (() => Transform)> | undefined
  const stream = zlib?.[DECODERS[coding] ?? '']?.()
  if (!stream) return undefined
  stream.on('data', onChunk).on('error', onProblem)
  const ended = new Promise<void>((resolve) => void stream.on('end', resolve).on('close', resolve))
  return {
    see: (chunk) => void stream.write(chunk),
    end() {
      stream.end()
      return ended
    },
  }
}

/** How JSON and events begin, in ASCII, UTF-8 or UTF-16. Nothing encoded does. */
const TEXT = /^(?:\xef\xbb\xbf|\xfe\xff|\xff\xfe)?\s*[[{:deir][\x20-\x7e\s]*$/

function isText(bytes: Uint8Array): boolean {
  return TEXT.test(String.fromCharCode(...bytes.subarray(0, MIN_BYTES).filter((byte) => byte !== 0)))
}

function joinBytes(one: Uint8Array, other: Uint8Array): Uint8Array {
  const both = new Uint8Array(one.length + other.length)
  both.set(one)
  both.set(other, one.length)
  return both
}

interface TextSink {
  see(chunk: Uint8Array): void
  end(): void
}

/** RFC 8259 §8.1 wants UTF-8; servers that obey a client's `Accept` may send UTF-16. Headers may name what is not sent. */
function findCharset([one, two]: Uint8Array): string {
  if ((one === 0xfe && two === 0xff) || (one === 0 && two !== 0)) return 'utf-16be'
  return (one === 0xff && two === 0xfe) || two === 0 ? 'utf-16le' : 'utf-8'
}

/** Tells by the first characters whether a body is JSON, one document or many, or a stream of events. */
function createTextReader(
  scanner: MemberScanner,
  names: readonly string[] | undefined,
  onProblem: () => void,
): TextSink {
  let first: Uint8Array = new Uint8Array()
  let decoder: TextDecoder | undefined
  let add: ((text: string) => void) | undefined
  const see = (chunk: Uint8Array) => {
    if (!decoder) {
      first = joinBytes(first, chunk)
      if (first.length < 2) return
      decoder = new TextDecoder(findCharset(first))
      addText(decoder.decode(first, { stream: true }))
    } else addText(decoder.decode(chunk, { stream: true }))
  }
  const addText = (text: string) => {
    if (!add) {
      const [start] = /\S/.exec(text) ?? []
      if (start === undefined) return
      if (start === '{' || start === '[') add = (more) => scanner.add(more)
      else if (':deir'.includes(start)) add = createEventReader(scanner, names)
      else return onProblem()
    }
    add(text)
  }
  return {
    see,
    end: () => add?.('\n\n'),
  }
}

const DATA = 'data:'

/** Lists names of which every event that tells a number has one; undefined if some can be written in several ways. */
function listNames(terms: readonly MemberTerm[]): readonly string[] | undefined {
  const names = terms.flatMap(({ paths }) => paths.map((path) => `"${path.at(-1)}"`))
  return names.every((name) => /^"[a-z_]\w*"$/i.test(name)) ? names : undefined
}

/** Reads the data of server-sent events (HTML Standard §9.2.6). An empty line ends an event. */
function createEventReader(scanner: MemberScanner, names: readonly string[] | undefined): (text: string) => void {
  /** The beginning of a line, as far as it tells whether the line has data. */
  let start = ''
  let endsInReturn = false
  /** The text so far ends with an event. */
  let isBetween = true
  return function addText(text) {
    const wasBetween = isBetween
    isBetween = text.endsWith('\n\n')
    // Most events tell nothing, which is seen sooner than they are scanned.
    const isWhole = wasBetween && isBetween && !endsInReturn
    if (isWhole && names && !text.includes('\\u') && !names.some((name) => text.includes(name))) return
    const more = endsInReturn && text.startsWith('\n') ? text.slice(1) : text
    endsInReturn = text.endsWith('\r')
    const lines = more.includes('\r') ? more.replace(/\r\n?/g, '\n') : more
    for (let at = 0; at < lines.length; ) {
      const newline = lines.indexOf('\n', at)
      const end = newline < 0 ? lines.length : newline
      if (start.length < DATA.length) {
        const missing = DATA.length - start.length
        start += lines.slice(at, Math.min(end, at + missing))
        if (start === DATA) scanner.add(lines, at + missing, end)
      } else if (start === DATA) scanner.add(lines, at, end)
      if (newline < 0) return
      if (start === '') scanner.reset()
      start = ''
      at = newline + 1
    }
  }
}
