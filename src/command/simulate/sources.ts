import type { Context } from '../subcommand.ts'
import { createCommonReader } from './common-log.ts'
import { expectedRequests, type Traffic, trafficOf } from './described-traffic.ts'
import { createJsonReader, type FieldMap } from './json-log.ts'
import type { LogEntry } from './log-entry.ts'
import { readLines } from './read-lines.ts'

const PROGRESS_EVERY = 2_000
const MAX_SHOWN_CHARACTERS = 100

/** What was read of logs. */
export interface Reading {
  lines: number
  unreadable: number
  /** The first of these, and where it stands. */
  first: { readonly file: string; readonly line: number; readonly text: string } | null
}

/** The requests of some logs, in order, until Ctrl-C. @param reading is kept up to date */
export async function* entriesOfLogs(
  files: readonly string[],
  fields: FieldMap,
  { terminal, signal }: Pick<Context, 'terminal' | 'signal'>,
  reading: Reading,
): AsyncGenerator<readonly LogEntry[]> {
  const readCommon = createCommonReader()
  const readJson = createJsonReader(fields)
  const progress = terminal.progress('lines', 1)
  try {
    for await (const { file, first, lines, share } of readLines(files, terminal.input)) {
      if (signal.aborted) return
      const entries: LogEntry[] = []
      for (const [index, text] of lines.entries()) {
        if (/^\s*$/.test(text)) continue
        reading.lines++
        const entry = text.startsWith('{') ? readJson(text) : readCommon(text)
        if (entry) entries.push(entry)
        else {
          reading.unreadable++
          reading.first ??= { file, line: first + index, text: text.slice(0, MAX_SHOWN_CHARACTERS) }
        }
      }
      yield entries
      // What is left is estimated by bytes.
      if (share !== undefined && share > 0) {
        progress.setTotal(Math.round(reading.lines / share))
        progress.set(reading.lines)
      }
    }
  } finally {
    progress.end()
  }
}

/** The requests of described traffic, in order, until Ctrl-C. */
export async function* entriesOfTraffic(
  traffic: Traffic,
  seed: number,
  { terminal, signal }: Pick<Context, 'terminal' | 'signal'>,
): AsyncGenerator<readonly LogEntry[]> {
  const progress = terminal.progress('requests', expectedRequests(traffic))
  let done = 0
  let entries: LogEntry[] = []
  try {
    for (const entry of trafficOf(traffic, seed)) {
      if (entries.push(entry) < PROGRESS_EVERY) continue
      yield entries
      done += entries.length
      entries = []
      progress.set(done)
      // Lets a Ctrl-C be heard.
      await new Promise(setImmediate)
      if (signal.aborted) return
    }
    yield entries
  } finally {
    progress.end()
  }
}
