/** Meters what a response has cost, from what is seen of its body. */
import type { CostTerm } from '../../core/model/policy.ts'
import { findMember } from '../request/identity/reading.ts'
import { readCostHeader } from './exchange.ts'

/** Longer JSON tells no cost. */
const MAX_JSON_CHARACTERS = 256 * 1024
/** Longer events of a stream tell no cost. */
const MAX_EVENT_CHARACTERS = 64 * 1024
/** What is left of a body is read so long for its cost when the client has gone. Workers allow no longer. */
export const MAX_READ_ON_MS = 30_000

export interface Meter {
  /** The rest of the body may tell a cost. */
  readonly isExpecting: boolean
  see(chunk: Uint8Array): void
  /** Nothing more is seen. @param ms that it has taken @returns reads what was counted of a term */
  end(ms: number): (term: CostTerm) => number | undefined
}

export function createMeter(headers: Pick<Headers, 'get' | 'has'>, terms: readonly CostTerm[]): Meter {
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
    end(ms) {
      if (isText) texts.end()
      return (term) => {
        if (term.kind === 'ms') return Math.max(0, ms)
        if (term.kind === 'bytes') return bytes
        return readCostHeader(term, headers) ?? numbers.get(term)
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
