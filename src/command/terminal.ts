import { randomInt } from 'node:crypto'
import { createInterface } from 'node:readline/promises'
import { text } from 'node:stream/consumers'
import { styleText } from 'node:util'
import { Presets, SingleBar } from 'cli-progress'
import Table from 'cli-table3'
import { CommandError } from './command-error.ts'
import { formatNumber } from './format.ts'

export interface TerminalOptions {
  readonly stdin: NodeJS.ReadStream
  readonly stdout: NodeJS.WriteStream
  readonly stderr: NodeJS.WriteStream
  /** Whether results are printed as JSON. */
  readonly isJson: boolean
}

export interface Progress {
  /** @param done units done so far @param total if it has turned out to be another */
  set(done: number, total?: number): void
  end(): void
}

/** Controls, signs that reorder what stands beside them, and separators of lines: nobody else may write these to a terminal. */
const CONTROLS = String.raw`[^\P{Cc}\n\t]|[\p{Bidi_Control}\p{Zl}\p{Zp}]`

/** Marks styles as the command's own until they are written: nobody who writes a log or an answer can guess it. */
const OWN = Array.from({ length: 3 }, () => randomInt(1_000, 10_000)).join(';')
const OWN_STYLE_OR_CONTROL = new RegExp(String.raw`(\x1b\[[\d;]+);${OWN}m|${CONTROLS}`, 'gu')

/** Where results and messages go: the only place that writes to the terminal. Colours are there only on a terminal, and not with NO_COLOR. */
export class Terminal {
  readonly #options: TerminalOptions

  constructor(options: TerminalOptions) {
    this.#options = options
  }

  get isJson(): boolean {
    return this.#options.isJson
  }

  /** Whether somebody is watching, so that what was printed may be replaced. */
  get isLive(): boolean {
    return this.#options.stdout.isTTY === true && !this.isJson
  }

  /** A result: one line of JSON if that was asked for, else text. */
  show(value: object, toText: () => string): void {
    const text = this.isJson
      ? escapeControls(JSON.stringify(value))
      : replaceControls(toText()).replaceAll(`;${OWN}m`, 'm')
    this.#options.stdout.write(`${text}\n`)
  }

  /** The same, in place of what this has shown before if somebody is watching. */
  showAgain(value: object, toText: () => string): void {
    if (this.isLive) this.#options.stdout.write('\x1b[H\x1b[2J')
    this.show(value, toText)
  }

  /** A message to the operator, not a result: one line. */
  note(text: string): void {
    this.#options.stderr.write(`${toLine(text)}\n`)
  }

  /** Text in this style, if it is handed on to `show()`. */
  style(format: Parameters<typeof styleText>[0], text: string): string {
    const [before = '', after = ''] = styleText(format, '|', { stream: this.#options.stdout }).split('|')
    return `${marked(before)}${text}${marked(after)}`
  }

  /** Columns side by side, without lines around them. Numbers stand to the right. */
  table(header: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
    const isNumeric = header.map(
      (_, at) => rows.length > 0 && rows.every((row) => /^-?[\d.,]+[%a-z]*$|^$|^–$/.test(`${row[at] ?? ''}`)),
    )
    const table = new Table({
      head: header.map((text) => this.style('bold', toLine(text))),
      chars: NO_LINES,
      colAligns: isNumeric.map((numeric) => (numeric ? 'right' : 'left')),
      style: { head: [], border: [], 'padding-left': 0, 'padding-right': 2 },
    })
    // Before it measures them.
    table.push(...rows.map((row) => row.map((cell) => (typeof cell === 'string' ? toLine(cell) : cell))))
    return table
      .toString()
      .split('\n')
      .map((line) => line.trimEnd())
      .join('\n')
  }

  /** A bar on stderr with rate and estimate; nothing if nobody is watching. @param unit e.g. "keys" */
  progress(unit: string, total: number): Progress {
    const { stderr } = this.#options
    if (stderr.isTTY !== true || this.isJson) return { set() {}, end() {} }
    const startedAtMs = performance.now()
    const bar = new SingleBar(
      {
        stream: stderr,
        format: `{bar} {percentage}% | {value}/{total} ${unit} | {rate}/s | {eta_formatted} left`,
        hideCursor: true,
        etaBuffer: 50,
      },
      Presets.shades_classic,
    )
    bar.start(total, 0, { rate: '0' })
    return {
      set(done, total) {
        if (total !== undefined) bar.setTotal(total)
        const seconds = (performance.now() - startedAtMs) / 1000
        bar.update(done, { rate: formatNumber(Math.round(done / Math.max(seconds, 0.001))) })
      },
      end: () => bar.stop(),
    }
  }

  /** The standard input, a piece at a time. */
  get input(): AsyncIterable<unknown> {
    return this.#options.stdin
  }

  /** All of the standard input, without white space around it. */
  async readInput(): Promise<string> {
    return (await text(this.#options.stdin)).trim()
  }

  /** @returns undefined if there is nobody to ask */
  async confirm(question: string, signal: AbortSignal): Promise<boolean | undefined> {
    const { stdin, stderr } = this.#options
    if (!stdin.isTTY || !stderr.isTTY) return undefined
    const prompt = createInterface({ input: stdin, output: stderr })
    // While it reads, Ctrl-C is a key like others, and Ctrl-D ends it without an answer.
    const gone = new AbortController()
    for (const event of ['SIGINT', 'close']) prompt.once(event, () => gone.abort())
    try {
      const answer = await prompt.question(`${toLine(question)} [y/N] `, {
        signal: AbortSignal.any([signal, gone.signal]),
      })
      return /^y(?:es)?$/i.test(answer.trim())
    } catch {
      throw new CommandError('ended without an answer: nothing was done', { exit: 'interrupted' })
    } finally {
      prompt.close()
    }
  }
}

function marked(style: string): string {
  return style.replace(/m/g, `;${OWN}m`)
}

/** Leaves nothing in a text that a terminal obeys, but the command's own styles. */
function replaceControls(text: string): string {
  return text.replace(OWN_STYLE_OR_CONTROL, (found, own) => (own === undefined ? '\ufffd' : found))
}

function toLine(text: string): string {
  return replaceControls(text).replace(/[\n\t]/g, '\ufffd')
}

/** JSON that stays the same value. */
export function escapeControls(json: string): string {
  return json.replace(new RegExp(CONTROLS, 'gu'), (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

const NO_LINES = Object.fromEntries(
  ['top', 'bottom', 'left', 'right', 'mid'].flatMap((name) =>
    [name, `${name}-mid`, `${name}-left`, `${name}-right`].map((part) => [part, '']),
  ),
)
NO_LINES.middle = ''
