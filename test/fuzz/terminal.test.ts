import { PassThrough } from 'node:stream'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, vi } from 'vitest'
import { Terminal } from '../../src/command/terminal.ts'
import { fuzz } from './fuzz.ts'

/** What strangers write into logs, labels and answers: letters, escapes of every kind, and what reorders a line. */
const written = fc
  .array(
    fc.oneof(
      fc.constantFrom('a', ' ', '1', ';', '[', ']', 'm', '\ud83d\ude00', '日', '\n', '\t', '\r'),
      fc.constantFrom('\x1b[31m', '\x1b[2J', '\x1b[1;8m', '\x1b]0;title\x07', '\x9b31m', '\x1b[1A', '\x1b(0', '\x1b'),
      fc.integer({ min: 0, max: 0x9f }).map((code) => String.fromCharCode(code)),
      fc.constantFrom(...'\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029'),
    ),
    { maxLength: 12 },
  )
  .map((parts) => parts.join(''))

// Whoever runs the tests may want no colours.
beforeAll(() => {
  for (const name of ['NO_COLOR', 'FORCE_COLOR', 'NODE_DISABLE_COLORS']) vi.stubEnv(name, undefined)
})
afterAll(() => vi.unstubAllEnvs())

const ESCAPE = '\x1b'
const STYLE = new RegExp(`${ESCAPE}\\[\\d+m`, 'g')
const UNSAFE = /[^\P{Cc}\n\t]|[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/u

function createTerminal(isJson: boolean) {
  const streams = [new PassThrough(), new PassThrough()] as const
  for (const stream of streams) Object.assign(stream, { isTTY: true, getColorDepth: () => 8 })
  const [stdout, stderr] = streams as unknown as NodeJS.WriteStream[] as [NodeJS.WriteStream, NodeJS.WriteStream]
  const { signal } = new AbortController()
  const terminal = new Terminal({ stdin: process.stdin, stdout, stderr, isJson, signal })
  return { terminal, readAll: () => streams.map((stream) => `${stream.read() ?? ''}`) as [string, string] }
}

fuzz(
  'Terminal writes no sign that moves, colours or reorders, but the styles that the command sets',
  2_000,
  fc.property(written, written, (one, other) => {
    const { terminal, readAll } = createTerminal(false)
    terminal.show(
      {},
      () =>
        `${one}\n${terminal.style('red', other)}\n${terminal.formatTable([{ [one]: terminal.style('bold', other) }])}`,
    )
    terminal.note(one)
    const [shown, noted] = readAll()
    // Exactly what it was asked for: red once, and bold for the cell and for the head of its column.
    expect(shown.match(STYLE)?.sort()).toEqual(
      ['\x1b[1m', '\x1b[1m', '\x1b[22m', '\x1b[22m', '\x1b[31m', '\x1b[39m'].sort(),
    )
    expect(shown.replace(STYLE, '')).not.toMatch(UNSAFE)
    expect(noted).not.toMatch(UNSAFE)
    // A message is one line, and so is a row: nobody adds others.
    expect(noted.split('\n')).toHaveLength(2)
    expect(terminal.formatTable([{ a: one }, { a: other }]).split('\n')).toHaveLength(3)
  }),
)

fuzz(
  'Terminal writes JSON without such signs, and loses nothing',
  1_000,
  fc.property(written, (text) => {
    const { terminal, readAll } = createTerminal(true)
    terminal.show({ [text]: [text] }, () => '')
    const [shown] = readAll()
    expect(shown).not.toMatch(UNSAFE)
    expect(shown.trimEnd().split('\n')).toHaveLength(1)
    expect(JSON.parse(shown)).toEqual({ [text]: [text] })
  }),
)
