/** Writes to a terminal, a pipe or a file, and asks the person in front of it. */
import { randomInt } from 'node:crypto'
import { createInterface } from 'node:readline/promises'
import { addAbortSignal } from 'node:stream'
import { text } from 'node:stream/consumers'
import { styleText } from 'node:util'
import { Presets, SingleBar } from 'cli-progress'
import Table from 'cli-table3'
import { CommandError } from './command-error.ts'
import { formatCell } from './format.ts'

export interface TerminalOptions {
  readonly stdin: NodeJS.ReadStream
  readonly stdout: NodeJS.WriteStream
  readonly stderr: NodeJS.WriteStream
  readonly isJson: boolean
  /** Ends reading, if it is aborted. */
  readonly signal: AbortSignal
}

export type Row = Readonly<Record<string, string | number>>

/** Controls, signs that reorder their neighbours, and line separators: text from outside must not write these to a terminal. */
const CONTROLS = String.raw`[^\P{Cc}\n\t]|[\p{Bidi_Control}\p{Zl}\p{Zp}]`

/** Marks the command's own styles until they are written. It is random, so that no log or answer can forge it. */
const OWN_MARK = Array.from({ length: 3 }, () => randomInt(1_000, 10_000)).join(';')
const OWN_STYLE_OR_CONTROL = new RegExp(String.raw`(\x1b\[[\d;]+);${OWN_MARK}m|${CONTROLS}`, 'gu')

/** Writes results to stdout and messages to stderr; nothing else writes to the terminal. It uses colours only on a TTY, and not with NO_COLOR. */
export class Terminal {
  readonly #options: TerminalOptions
  #hasShown = false

  constructor(options: TerminalOptions) {
    this.#options = options
  }

  get isJson(): boolean {
    return this.#options.isJson
  }

  /** True on a TTY, where output may be replaced. */
  get isLive(): boolean {
    return this.#options.stdout.isTTY === true && !this.isJson
  }

  /** Prints a result: one line of JSON with `--json`, else text. */
  show(value: object, toText: () => string): void {
    const text = this.isJson
      ? escapeControls(JSON.stringify(value))
      : replaceControls(toText()).replaceAll(`;${OWN_MARK}m`, 'm')
    this.#options.stdout.write(`${text}\n`)
  }

  /** Prints a result that replaces the one before it on a TTY. */
  showAgain(value: object, toText: () => string): void {
    if (this.isLive && this.#hasShown) this.#options.stdout.write('\x1b[H\x1b[2J')
    this.#hasShown = true
    this.show(value, toText)
  }

  note(text: string): void {
    this.#options.stderr.write(`${toLine(text)}\n`)
  }

  style(format: Parameters<typeof styleText>[0], text: string): string {
    const styled = styleText(format, '|', { stream: this.#options.stdout })
    return styled.replace(/m/g, `;${OWN_MARK}m`).replace('|', () => text)
  }

  /** Lays out rows in columns, named by their members, without borders. Numbers are aligned to the right. */
  formatTable(rows: readonly Row[]): string {
    const header = Object.keys(rows[0] ?? {})
    const cells = rows.map((row) => Object.values(row).map((cell) => toLine(formatCell(cell))))
    const isNumeric = (at: number) => cells.every((row) => /^-?[\d.,]+[%a-z]*$|^$|^–$/.test(row[at] ?? ''))
    const table = new Table({
      head: header.map((text) => this.style('bold', toLine(text))),
      chars: NO_LINES,
      colAligns: header.map((_, at) => (isNumeric(at) ? 'right' : 'left')),
      style: { head: [], border: [], 'padding-left': 0, 'padding-right': 2 },
    })
    table.push(...cells)
    return table.toString().replace(/[^\S\n]+$/gm, '')
  }

  /** Shows a bar on stderr with an estimate, if that is a TTY. @param unit e.g. "keys" */
  startProgress(unit: string, total: number): SingleBar {
    const { stderr: stream } = this.#options
    const format = `{bar} {percentage}% | {value}/{total} ${unit} | {eta_formatted} left`
    const bar = new SingleBar({ stream, format, hideCursor: true, etaBuffer: 50 }, Presets.shades_classic)
    if (!this.isJson) bar.start(total, 0)
    return bar
  }

  get input(): AsyncIterable<unknown> {
    return this.#options.stdin
  }

  async readInput(): Promise<string> {
    const { stdin, signal } = this.#options
    return (await text(addAbortSignal(signal, stdin))).trim()
  }

  /** @param hint if there is no TTY to ask on @throws {CommandError} without an answer */
  async confirm(question: string, hint: string): Promise<boolean> {
    return /^y(?:es)?$/i.test(await this.ask(`${question} [y/N]`, hint))
  }

  /** @param hint if there is no TTY to ask on @throws {CommandError} without an answer */
  async ask(question: string, hint: string): Promise<string> {
    const { stdin, stderr, signal } = this.#options
    if (!stdin.isTTY || !stderr.isTTY) throw new CommandError('there is no terminal to ask', { hint })
    const prompt = createInterface({ input: stdin, output: stderr })
    // While it reads, Ctrl-C is a key like others, and Ctrl-D ends it without an answer.
    const ended = new AbortController()
    for (const event of ['SIGINT', 'close']) prompt.once(event, () => ended.abort())
    try {
      const answer = await prompt.question(`${toLine(question)} `, { signal: AbortSignal.any([signal, ended.signal]) })
      return answer.trim()
    } catch {
      throw new CommandError('ended without an answer: nothing was done', { exit: 'interrupted' })
    } finally {
      prompt.close()
    }
  }
}

/** Replaces all that a terminal obeys, except for the command's own styles. */
export function replaceControls(text: string): string {
  return text.replace(OWN_STYLE_OR_CONTROL, (found, own) => (own === undefined ? '\ufffd' : found))
}

function toLine(text: string): string {
  return replaceControls(text).replace(/[\n\t]/g, '\ufffd')
}

/** Escapes controls in JSON, which keeps its value. */
function escapeControls(json: string): string {
  return json.replace(new RegExp(CONTROLS, 'gu'), (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

const NO_LINES = Object.fromEntries(
  ['top', 'bottom', 'left', 'right', 'mid'].flatMap((name) =>
    [name, `${name}-mid`, `${name}-left`, `${name}-right`].map((part) => [part, '']),
  ),
)
NO_LINES.middle = ''
