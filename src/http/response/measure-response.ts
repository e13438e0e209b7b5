/** Measures a response on its way to the client, and settles the cost of its request when it has ended. */
import type { CostTerm } from '../../core/model/policy.ts'
import type { ResponseCost, SlotHold } from '../../core/model/verdict.ts'
import { findMember } from '../request/identity/reading.ts'
import type { Exchange } from '../request/received-request.ts'
import { createPassage } from './create-passage.ts'
import { type AbortableRequest, readCostHeader } from './exchange.ts'

/** Longer JSON is passed on, and tells no cost. */
const MAX_JSON_CHARACTERS = 256 * 1024
/** Longer events of a stream are passed on, and tell no cost. */
const MAX_EVENT_CHARACTERS = 64 * 1024
/** What is left of a body is read so long for its cost when the client has gone. Workers allow no longer. */
const MAX_READ_ON_MS = 30_000

export interface MeasureOptions {
  /** Bodies are read as the upstream has encoded them; else the runtime decodes what is read, and encodes it again. */
  readonly keepsEncoding: boolean
  readonly now: () => number
}

export type MeasureResponse = ReturnType<typeof createMeasureResponse>

/**
 * Makes a function that passes a response on as it comes, and settles what it has cost when it ends or breaks off: by what
 * was sent until then. It releases slots after that, so that no more is in flight than there are slots until all is
 * charged. If the client goes, the rest of a JSON body or a stream of events is still read if it tells the cost.
 */
export function createMeasureResponse({ keepsEncoding, now }: MeasureOptions) {
  return function measureResponse(
    response: Response,
    cost: ResponseCost,
    hold: SlotHold | undefined,
    { request, context }: Exchange<AbortableRequest>,
    startMs: number,
  ): Response {
    const { body, headers } = response
    const meter = createMeter(headers, cost.terms)
    const settle = async () => {
      const read = meter.end()
      try {
        await cost.settle((term) =>
          term.kind === 'ms' ? Math.max(0, now() - startMs) : (readCostHeader(term, headers) ?? read(term)),
        )
      } finally {
        await hold?.release()
      }
    }
    // The body of a response to HEAD is never read.
    if (!body || request.method === 'HEAD') {
      context.waitUntil(settle())
      return response
    }
    const { readable, writable } = createPassage(headers, keepsEncoding)
    context.waitUntil(copyBody(body, writable, meter, request.signal).then(settle))
    return new Response(readable, response)
  }
}

interface Meter {
  /** The rest of the body may tell a cost. */
  readonly isExpecting: boolean
  see(chunk: Uint8Array): void
  /** Nothing more is seen. @returns reads what was counted of a term */
  end(): (term: CostTerm) => number | undefined
}

/** Resolves when either side has ended, whatever happened. */
async function copyBody(
  body: ReadableStream<Uint8Array>,
  writable: WritableStream<Uint8Array>,
  meter: Meter,
  signal: AbortSignal,
): Promise<void> {
  const reader = body.getReader()
  const writer = writable.getWriter()
  let isGone = false
  let timer: ReturnType<typeof setTimeout> | undefined
  const cancel = () => void reader.cancel().catch(() => {})
  const leave = () => {
    if (isGone) return
    isGone = true
    writer.abort().catch(() => {})
    if (meter.isExpecting) timer = setTimeout(cancel, MAX_READ_ON_MS)
    else cancel()
  }
  writer.closed.catch(leave)
  signal.addEventListener('abort', leave)
  if (signal.aborted) leave()
  try {
    for (let chunk = await reader.read(); chunk.value && (!isGone || meter.isExpecting); chunk = await reader.read()) {
      meter.see(chunk.value)
      if (!isGone) await writer.write(chunk.value).catch(leave)
    }
    if (isGone) await reader.cancel()
    else await writer.close()
  } catch (error) {
    isGone = true
    await writer.abort(error).catch(() => {})
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', leave)
  }
}

function createMeter(headers: Headers, terms: readonly CostTerm[]): Meter {
  const places = terms.flatMap((term) => (term.kind === 'json' ? [term] : []))
  const type = headers.get('Content-Type') ?? ''
  const isEncoded = headers.has('Content-Encoding')
  const isStream = /^\s*text\/event-stream\b/i.test(type)
  const numbers = new Map<CostTerm, number>()
  const members = places.flatMap(({ paths }) => paths.map((path) => `"${path.at(-1)}"`))
  const hasMember = (text: string) => members.some((member) => text.includes(member))
  const readNumbers = (text: string) => {
    if (!hasMember(text)) return
    const json = parseJson(text)
    for (const place of places) {
      const number = place.paths.map((path) => findMember(json, path)).find((found) => typeof found === 'number')
      if (typeof number === 'number' && number >= 0) numbers.set(place, number)
    }
  }
  const texts = isStream ? createEventReader(hasMember, readNumbers) : createTextReader(readNumbers)
  const isText = places.length > 0 && !isEncoded && (isStream || /[/+]json\b/i.test(type))
  const decoder = new TextDecoder()
  let bytes = 0
  return {
    get isExpecting() {
      return isText && texts.isOpen
    },
    see(chunk) {
      bytes += chunk.byteLength
      if (isText) texts.add(decoder.decode(chunk, { stream: true }))
    },
    end() {
      if (isText) texts.end()
      return (term) => {
        if (term.kind === 'bytes') return bytes
        return numbers.get(term)
      }
    },
  }
}

interface TextReader {
  /** False once it is too long to be read. */
  readonly isOpen: boolean
  add(text: string): void
  end(): void
}

function createTextReader(onText: (text: string) => void): TextReader {
  let text = ''
  let isOpen = true
  return {
    get isOpen() {
      return isOpen
    },
    add(more) {
      isOpen &&= text.length + more.length <= MAX_JSON_CHARACTERS
      text = isOpen ? text + more : ''
    },
    end: () => onText(text),
  }
}

/** Ends an event, with the newline of its last line. */
const EVENT_ENDS = ['\n\n', '\r\n\r\n', '\r\r']

/**
 * Reads the data of server-sent events (HTML Standard §9.2.6).
 * @param isWanted most events tell nothing, and are not looked at more closely
 */
function createEventReader(isWanted: (text: string) => boolean, onData: (data: string) => void): TextReader {
  /** An event that has not ended. */
  let rest = ''
  let isTooLong = false
  const readEvents = (text: string) => {
    let data = ''
    for (const line of text.split(/\r\n|\n|\r/)) {
      if (line.startsWith('data:')) data += line.slice('data:'.length)
      else if (line === '') {
        if (data.length <= MAX_EVENT_CHARACTERS && data !== '') onData(data)
        data = ''
      }
    }
  }
  return {
    isOpen: true,
    add(text) {
      const all = rest + text
      const end = Math.max(...EVENT_ENDS.map((each) => (all.includes(each) ? all.lastIndexOf(each) + each.length : 0)))
      rest = all.slice(end)
      const ended = all.slice(0, end)
      // After an event that was too long, the rest of it comes first.
      if (isWanted(ended)) readEvents(isTooLong ? ended.slice(ended.search(/\n\n|\r\n\r\n|\r\r/) + 2) : ended)
      isTooLong &&= end === 0
      if (rest.length > MAX_EVENT_CHARACTERS) {
        // What follows of the event has no beginning.
        rest = ''
        isTooLong = true
      }
    },
    end: () => readEvents(`${isTooLong ? '' : rest}\n\n`),
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
