import { createInterface } from 'node:readline/promises'
import { text } from 'node:stream/consumers'
import { styleText } from 'node:util'
import { Presets, SingleBar } from 'cli-progress'
import Table from 'cli-table3'
import { CommandError } from './command-error.ts'

export interface TerminalOptions {
  readonly stdin: NodeJS.ReadStream
  readonly stdout: NodeJS.WriteStream
  readonly stderr: NodeJS.WriteStream
  /** Whether results are printed as JSON. */
  readonly isJson: boolean
}

type Style = Parameters<typeof styleText>[0]

export interface Progress {
  /** @param done units done so far, of the total */
  set(done: number): void
  /** The total has turned out to be another. */
  setTotal(total: number): void
  end(): void
}

/** Where results and messages go. Colours are there only on a terminal, and not with NO_COLOR. */
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
    this.#options.stdout.write(`${this.isJson ? JSON.stringify(value) : toText()}\n`)
  }

  /** The same, in place of what this has shown before if somebody is watching. */
  showAgain(value: object, toText: () => string): void {
    if (this.isLive) this.#options.stdout.write('\x1b[H\x1b[2J')
    this.show(value, toText)
  }

  /** A message to the operator, not a result. */
  note(text: string): void {
    this.#options.stderr.write(`${text}\n`)
  }

  style(format: Style, text: string): string {
    return styleText(format, text, { stream: this.#options.stdout })
  }

  /** Columns side by side, without lines around them. Numbers stand to the right. */
  table(header: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
    const isNumeric = header.map(
      (_, at) => rows.length > 0 && rows.every((row) => /^-?[\d.,]+[%a-z]*$|^$|^–$/.test(`${row[at] ?? ''}`)),
    )
    const table = new Table({
      head: header.map((text) => this.style('bold', text)),
      chars: NO_LINES,
      colAligns: isNumeric.map((numeric) => (numeric ? 'right' : 'left')),
      style: { head: [], border: [], 'padding-left': 0, 'padding-right': 2 },
    })
    table.push(...rows.map((row) => [...row]))
    return table
      .toString()
      .split('\n')
      .map((line) => line.trimEnd())
      .join('\n')
  }

  /** A bar on stderr with rate and estimate; nothing if nobody is watching. @param unit e.g. "keys" */
  progress(unit: string, total: number): Progress {
    const { stderr } = this.#options
    if (stderr.isTTY !== true || this.isJson) return { set() {}, setTotal() {}, end() {} }
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
      set(done) {
        const seconds = (performance.now() - startedAtMs) / 1000
        bar.update(done, { rate: Math.round(done / Math.max(seconds, 0.001)).toLocaleString('en') })
      },
      setTotal: (total) => bar.setTotal(total),
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
      const answer = await prompt.question(`${question} [y/N] `, { signal: AbortSignal.any([signal, gone.signal]) })
      return /^y(?:es)?$/i.test(answer.trim())
    } catch {
      throw new CommandError('ended without an answer: nothing was done', { exit: 'interrupted' })
    } finally {
      prompt.close()
    }
  }
}

const NO_LINES = Object.fromEntries(
  ['top', 'bottom', 'left', 'right', 'mid'].flatMap((name) =>
    [name, `${name}-mid`, `${name}-left`, `${name}-right`].map((part) => [part, '']),
  ),
)
NO_LINES.middle = ''
