import { createReadStream, type ReadStream, statSync } from 'node:fs'
import { createGunzip } from 'node:zlib'
import { CommandError } from '../command-error.ts'

/** A longer line is no line of a log, and is not kept whole. */
const MAX_LINE_CHARACTERS = 1_048_576

/** Some lines of a log, in order. */
export interface Lines {
  readonly file: string
  /** Number of the first of them, from 1. */
  readonly first: number
  readonly lines: readonly string[]
  /** Share of all files that was read so far, 0 to 1; undefined if nobody knows how much there is. */
  readonly share: number | undefined
}

/**
 * Reads files one after another, a piece at a time. Those that end in `.gz` are unpacked, and `-` is standard input.
 * @throws {CommandError} for a file that cannot be read
 */
export async function* readLines(files: readonly string[], stdin: AsyncIterable<unknown>): AsyncGenerator<Lines> {
  const sizes = files.map((file) => (file === '-' ? Number.NaN : sizeOf(file)))
  const wholeSize = sizes.reduce((sum, size) => sum + size, 0)
  let sizeBefore = 0
  for (const [index, file] of files.entries()) {
    const raw = file === '-' ? undefined : createReadStream(file, { highWaterMark: 262_144 })
    const share = () =>
      raw && !Number.isNaN(wholeSize) ? (sizeBefore + raw.bytesRead) / Math.max(1, wholeSize) : undefined
    try {
      let first = 1
      for await (const lines of splitLines(raw ? unpacked(file, raw) : stdin)) {
        yield { file, first, lines, share: share() }
        first += lines.length
      }
    } catch (error) {
      throw unreadable(file, error)
    } finally {
      raw?.destroy()
    }
    sizeBefore += sizes[index] ?? 0
  }
}

function unpacked(file: string, raw: ReadStream): AsyncIterable<unknown> {
  if (!file.endsWith('.gz')) return raw
  const gunzip = createGunzip({ chunkSize: 262_144 })
  raw.once('error', (error) => gunzip.destroy(error))
  return raw.pipe(gunzip)
}

async function* splitLines(chunks: AsyncIterable<unknown>): AsyncGenerator<readonly string[]> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const chunk of chunks) {
    rest += typeof chunk === 'string' ? chunk : decoder.decode(chunk as Uint8Array, { stream: true })
    const lines = rest.split('\n')
    rest = (lines.pop() ?? '').slice(0, MAX_LINE_CHARACTERS)
    if (lines.length > 0) yield lines
  }
  rest += decoder.decode()
  if (rest !== '') yield [rest]
}

function sizeOf(file: string): number {
  try {
    return statSync(file).size
  } catch (error) {
    throw unreadable(file, error)
  }
}

/** What is thrown by whoever takes the lines goes on as it is. */
function unreadable(file: string, error: unknown): unknown {
  const code = error instanceof Error && 'code' in error ? String(error.code) : undefined
  return code === undefined
    ? error
    : new CommandError(`${file === '-' ? 'standard input' : file}: cannot be read: ${code}`)
}
