import { createReadStream, type ReadStream, statSync } from 'node:fs'
import { pipeline } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { CommandError } from '../command-error.ts'
import type { Terminal } from '../terminal.ts'
import { type FieldMap, type LogEntry, readLogLine } from './log-line.ts'

/** The rest of a longer line is dropped, so that a file without line breaks fills no memory. */
const MAX_LINE_CHARACTERS = 1_048_576
const MAX_SHOWN_CHARACTERS = 100

export interface LogReading {
  lines: number
  unreadable: number
  first: { readonly file: string; readonly line: number; readonly text: string } | null
}

/** Requests to replay at once, and how far the reader has come, in bytes or requests. */
export interface Batch {
  readonly entries: readonly LogEntry[]
  readonly done: number
  readonly total: number
}

/** Reads logs, unpacked if they end in `.gz`; `-` is standard input. @param reading is kept up to date */
export async function* readLogs(
  files: readonly string[],
  fields: FieldMap,
  terminal: Pick<Terminal, 'input'>,
  reading: LogReading,
): AsyncGenerator<Batch> {
  // NaN if one is the standard input, whose size is unknown.
  const sizes = files.map((file) => (file === '-' ? Number.NaN : readSize(file)))
  const totalBytes = sizes.reduce((sum, size) => sum + size, 0)
  let bytesBefore = 0
  for (const [index, file] of files.entries()) {
    const raw = file === '-' ? undefined : createReadStream(file, { highWaterMark: 262_144 })
    let line = 0
    for await (const texts of splitLines(file, raw ? unpack(file, raw) : terminal.input)) {
      const entries: LogEntry[] = []
      for (const text of texts) {
        line++
        if (/^\s*$/.test(text)) continue
        reading.lines++
        const entry = readLogLine(text, fields)
        if (entry) entries.push(entry)
        else {
          reading.unreadable++
          reading.first ??= { file, line, text: text.slice(0, MAX_SHOWN_CHARACTERS) }
        }
      }
      yield { entries, done: bytesBefore + (raw?.bytesRead ?? 0), total: totalBytes }
    }
    bytesBefore += sizes[index] ?? 0
  }
}

function unpack(file: string, raw: ReadStream): AsyncIterable<unknown> {
  // A pipeline also closes the file if the reader stops before its end.
  return file.endsWith('.gz') ? pipeline(raw, createGunzip({ chunkSize: 262_144 }), () => {}) : raw
}

async function* splitLines(file: string, chunks: AsyncIterable<unknown>): AsyncGenerator<readonly string[]> {
  const decoder = new TextDecoder()
  let rest = ''
  try {
    for await (const chunk of chunks) {
      rest += typeof chunk === 'string' ? chunk : decoder.decode(chunk as Uint8Array, { stream: true })
      const lines = rest.split('\n')
      rest = (lines.pop() ?? '').slice(0, MAX_LINE_CHARACTERS)
      if (lines.length > 0) yield lines
    }
  } catch (error) {
    throw toReadError(file, error)
  }
  rest += decoder.decode()
  if (rest !== '') yield [rest]
}

function readSize(file: string): number {
  try {
    return statSync(file).size
  } catch (error) {
    throw toReadError(file, error)
  }
}

/** Errors without a code are not about the file, and stay as they are. */
function toReadError(file: string, error: unknown): unknown {
  if (!(error instanceof Error && 'code' in error)) return error
  return new CommandError(`${file === '-' ? 'standard input' : file} cannot be read (${error.code})`)
}
