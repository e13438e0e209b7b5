import { once } from 'node:events'
import { connect } from 'node:net'
import { createInterface } from 'node:readline'

/** One decision as Redis ran it. */
export interface Decision {
  /** It was made at some moment between, by Redis's clock. */
  readonly earliestMs: number
  readonly latestMs: number
  readonly charges: readonly Charge[]
  /** What it wrote; nothing, if it refused. */
  readonly entries: readonly Entry[]
}

/** A charge that a decision intended, under one key. */
export interface Charge {
  readonly key: string
  readonly cost: number
}

export interface Entry {
  readonly key: string
  readonly ms: number
  /** All that was ever admitted under the key, this entry included. */
  readonly total: number
  readonly cost: number
}

interface Line {
  readonly ms: number
  readonly isScripts: boolean
  readonly args: readonly string[]
}

/** A script that is running, or has failed before it read the time. */
interface Run {
  readonly call: Line
  /** When Redis had given it the time. */
  timeMs?: number
  readonly entries: Entry[]
}

/**
 * Makes decisions of what MONITOR shows: each command, those of scripts among them, in the order in which it ran and
 * with the time at which it was shown. A script's own line is shown before it runs, that of a command after it has run,
 * so Redis has read its clock between the script's line and that of TIME.
 */
export class RecordReader {
  readonly #onDecision: (decision: Decision) => void
  readonly #frozenMs: number
  #run: Run | undefined

  /** @param frozenMs by how much the time that scripts read may be older than the line of the script */
  constructor(onDecision: (decision: Decision) => void, frozenMs = 0) {
    this.#onDecision = onDecision
    this.#frozenMs = frozenMs
  }

  read(text: string): void {
    const line = parseLine(text)
    if (!line) return
    const [command = '', ...args] = line.args
    if (!line.isScripts) {
      this.#close()
      if (/^eval(sha)?$/i.test(command)) this.#run = { call: line, entries: [] }
    } else if (!this.#run) throw new Error(`a script's command without a script: ${text}`)
    else if (command === 'TIME') this.#run.timeMs = line.ms
    else if (command === 'XADD') this.#run.entries.push(readEntry(args))
  }

  #close(): void {
    const run = this.#run
    this.#run = undefined
    // Without TIME it was a hash that Redis did not know: nothing ran.
    if (run?.timeMs === undefined) return
    const { call, timeMs, entries } = run
    const earliestMs = call.ms - this.#frozenMs
    this.#onDecision({ earliestMs, latestMs: timeMs, charges: readCharges(call.args), entries })
  }
}

function parseLine(text: string): Line | undefined {
  const [, seconds, millis, origin, rest = ''] = /^\+(\d+)\.(\d{3})\d{3} \[\d+ (\S+)\] (.*)$/.exec(text) ?? []
  if (seconds === undefined) return undefined
  const args = [...rest.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, arg = '']) => arg)
  return { ms: Number(seconds + millis), isScripts: origin === 'lua', args }
}

/** As the headers of lua/decide.lua and lua/sliding-window.lua say. */
function readCharges([, , count, ...args]: readonly string[]): Charge[] {
  const keys = args.slice(0, Number(count))
  let cursor = keys.length + 3
  return keys.map((key) => {
    const [terms = '', numbers] = args.slice(cursor)
    cursor += 2 + Number(numbers)
    const [, , , cost = 1] = terms.split(' ')
    return { key, cost: Number(cost) }
  })
}

function readEntry(args: readonly string[]): Entry {
  const [, ms, total] = args.map((arg) => /^(\d+)-(\d+)$/.exec(arg)).find((id) => id !== null) ?? []
  return { key: args[0] ?? '', ms: Number(ms), total: Number(total), cost: Number(args.at(-1)) }
}

export interface Recording {
  /** Resolves when all that Redis has run until now has been read. */
  stop(): Promise<void>
}

/** Reads the decisions of a Redis on 127.0.0.1 from now on. */
export async function recordDecisions(port: number, onDecision: (decision: Decision) => void): Promise<Recording> {
  const reader = new RecordReader(onDecision, (await isClockFrozen(port)) ? 1 : 0)
  const socket = connect(port, '127.0.0.1')
  const lines = createInterface({ input: socket })
  const started = once(lines, 'line')
  socket.write('MONITOR\r\n')
  await started

  const end = 'end-of-the-record'
  const ended = Promise.withResolvers<void>()
  lines.on('line', (text) => {
    try {
      reader.read(text)
      if (text.includes(end)) ended.resolve()
    } catch (error) {
      ended.reject(error)
    }
  })
  // Awaited at the end only; until then, a failure must not pass for one that nobody handles.
  ended.promise.catch(() => {})
  return {
    async stop() {
      await send(port, `ECHO ${end}`)
      await ended.promise
      socket.destroy()
    },
  }
}

/** Since 7.2, a script reads the time at which it was called, and not that at which it reads it. */
async function isClockFrozen(port: number): Promise<boolean> {
  const [, major, minor] = /redis_version:(\d+)\.(\d+)/.exec(await send(port, 'INFO server')) ?? []
  return Number(major) > 7 || (Number(major) === 7 && Number(minor) >= 2)
}

async function send(port: number, command: string): Promise<string> {
  const socket = connect(port, '127.0.0.1').setEncoding('utf8')
  socket.write(`${command}\r\n`)
  const [reply] = (await once(socket, 'data')) as [string]
  socket.destroy()
  return reply
}
