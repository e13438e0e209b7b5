import { ALGORITHMS } from '../../algorithms/algorithm-table.ts'
import type { ConcurrencyState, Held } from '../../algorithms/concurrency.ts'
import { emptyLog, type SlidingWindowState } from '../../algorithms/sliding-window.ts'
import type { AlgorithmName } from '../../model/limits.ts'
import { addEntries, type Entries, entriesOf, type LogLayout } from './log-layout.ts'
import { type Kept, NOTHING, type Replay, type Step } from './replay.ts'
import { DECISIONS, HEAD, LOG, type Rows, SLOTS } from './rows.ts'
import type { Undo } from './undo.ts'

/** Older decisions that one row holds. */
const CHUNK = 128

/** What an object knows. Plain data. */
export interface Book {
  /** Of the state; undefined before the first charge. */
  algorithm: AlgorithmName | undefined
  /** Time of the last charge, in microseconds since the Unix epoch. */
  clockUs: number
  kept: Kept
  /** For states that tell only what is left, while something may be taken back. */
  replay: Replay
  /** Reservations of shared decisions that are not closed, by the number of the decision. */
  readonly open: Map<number, Open>
  /** Shared decisions that were granted or given up here, oldest first. */
  readonly decisions: Map<number, Decided>
  readonly log: LogLayout
  readonly decided: DecidedLayout
  /** The slots that rows hold. */
  readonly slots: Map<number, Held>
  /** For when the object has set its alarm, milliseconds since the Unix epoch; 0 for never. */
  alarmAtMs: number
}

export interface Open {
  /** By the clock as it was read when it was charged, less what that has stepped back since. */
  atMs: number
  readonly permits: number
  readonly cost: number
  /** Of the entry, in a log. */
  readonly dateMs: number
  /** That holds the units, if it is slots that are counted. */
  readonly slot: number
  readonly rule: Step['rule']
  readonly siblings: readonly string[]
  /** It is a newcomer's: nobody is let through before it is closed. */
  readonly isNew: boolean
  /** All siblings have granted it. */
  isGranted: boolean
  /** They had still granted it when every message had had time to arrive. */
  isCertain: boolean
  /** There if its step is no longer remembered. */
  undo?: Undo
}

export interface Decided {
  /** 0 for one that was given up. */
  readonly permits: number
  readonly atMs: number
}

interface DecidedLayout {
  /** Oldest first. */
  chunks: { readonly n: number; readonly latestMs: number }[]
  /** Those in the head row: number, permits and time, one after the other. */
  recent: number[]
}

/** The head row; `log` only has the entries that are not in rows of their own. */
interface Head {
  readonly algorithm: AlgorithmName | undefined
  readonly clockUs: number
  readonly expiresAtMs: number
  readonly alarmAtMs: number
  readonly state?: unknown
  readonly log?: Pick<SlidingWindowState, 'keptMs' | 'penaltyMs' | 'penalty'> & {
    readonly entries: Entries
    /** How many of all entries, the newest, still count. Missing, all of them do. */
    readonly live?: number
  }
  readonly slotsExpireAtMs?: number
  readonly open?: readonly (readonly [number, Open])[]
  readonly base?: readonly [state: unknown, expiresAtMs: number]
  readonly steps?: readonly Step[]
  readonly recent?: readonly number[]
}

export function readBook(rows: Rows): Book {
  let head: Head | undefined
  const chunks: { n: number; entries: Entries }[] = []
  const decided: { n: number; entries: number[] }[] = []
  const slots = new Map<number, Held>()
  for (const { kind, n, body } of rows.all()) {
    if (kind === HEAD) head = JSON.parse(body)
    else if (kind === LOG) chunks.push({ n, entries: JSON.parse(body) })
    else if (kind === DECISIONS) decided.push({ n, entries: JSON.parse(body) })
    else if (kind === SLOTS) {
      const [units, deadlineMs] = JSON.parse(body) as [number, number]
      slots.set(n, { units, deadlineMs })
    }
  }
  const book = emptyBook()
  if (!head) return book
  const { algorithm, clockUs, expiresAtMs, alarmAtMs, open = [], base, steps = [], recent = [] } = head
  const decisions = book.decisions
  for (const { n, entries } of decided) {
    const latestMs = readDecisions(decisions, entries)
    book.decided.chunks.push({ n, latestMs })
  }
  readDecisions(decisions, recent)
  book.decided.recent.push(...recent)
  for (const { n, entries } of chunks) book.log.chunks.push({ n, size: entries.length / 2 })
  book.log.tail = (head.log?.entries.length ?? 0) / 2
  for (const [id, reservation] of open) book.open.set(id, reservation)
  if (base) book.replay = { base: { state: toState(base[0]), expiresAtMs: base[1] }, steps: [...steps] }
  const state = readState(head, chunks, slots)
  return Object.assign(book, { algorithm, clockUs, alarmAtMs, kept: { state, expiresAtMs }, slots })
}

export function emptyBook(): Book {
  return {
    algorithm: undefined,
    clockUs: 0,
    kept: NOTHING,
    replay: { base: NOTHING, steps: [] },
    open: new Map(),
    decisions: new Map(),
    log: { chunks: [], tail: 0 },
    decided: { chunks: [], recent: [] },
    slots: new Map(),
    alarmAtMs: 0,
  }
}

/** Writes what every change touches: one row, and seldom another one. */
export function writeBook(book: Book, rows: Rows): void {
  const { algorithm, clockUs, kept, replay, open, alarmAtMs } = book
  const { expiresAtMs } = kept
  layOutDecisions(book, rows)
  const { recent } = book.decided
  const head: Head = {
    algorithm,
    clockUs,
    expiresAtMs,
    alarmAtMs,
    ...writeState(book, rows),
    ...(open.size > 0 && { open: [...open] }),
    ...(replay.steps.length > 0 && {
      base: [fromState(replay.base.state), replay.base.expiresAtMs] as const,
      steps: replay.steps,
    }),
    ...(recent.length > 0 && { recent }),
  }
  rows.put(HEAD, 0, JSON.stringify(head))
}

/** Moves decisions that have become many to a row of their own. */
function layOutDecisions({ decided }: Book, rows: Rows): void {
  if (decided.recent.length < 3 * CHUNK) return
  const n = (decided.chunks.at(-1)?.n ?? 0) + 1
  rows.put(DECISIONS, n, JSON.stringify(decided.recent))
  decided.chunks.push({ n, latestMs: decided.recent.at(-1) ?? 0 })
  decided.recent = []
}

/** Forgets decisions older than a moment. */
export function forgetDecisions({ decisions, decided }: Book, sinceMs: number, rows: Rows): void {
  for (const [id, { atMs }] of decisions) {
    if (atMs >= sinceMs) break
    decisions.delete(id)
  }
  for (let first = decided.chunks[0]; first && first.latestMs < sinceMs; first = decided.chunks[0]) {
    rows.delete(DECISIONS, first.n)
    decided.chunks.shift()
  }
  if ((decided.recent.at(-1) ?? sinceMs) < sinceMs) decided.recent = []
}

function readDecisions(decisions: Map<number, Decided>, entries: readonly number[]): number {
  let atMs = 0
  for (let i = 0; i < entries.length; i += 3) {
    const [id, permits, ms] = entries.slice(i, i + 3) as [number, number, number]
    atMs = ms
    decisions.delete(id)
    decisions.set(id, { permits, atMs })
  }
  return atMs
}

function readState(
  { algorithm, state, log, slotsExpireAtMs }: Head,
  chunks: readonly { readonly entries: Entries }[],
  slots: ReadonlyMap<number, Held>,
): unknown {
  if (slotsExpireAtMs !== undefined) {
    return { slots: new Map(slots), expiresAtMs: slotsExpireAtMs } satisfies ConcurrencyState
  }
  if (!log) return algorithm && toState(state)
  const { keptMs, penaltyMs, penalty, live = Number.POSITIVE_INFINITY } = log
  const whole: SlidingWindowState = { ...emptyLog(), keptMs, penaltyMs, penalty }
  for (const { entries } of chunks) addEntries(whole, entries)
  addEntries(whole, log.entries)
  whole.head = Math.max(0, whole.dates.length - live)
  return whole
}

function writeState(book: Book, rows: Rows): Pick<Head, 'state' | 'log' | 'slotsExpireAtMs'> {
  const { algorithm, kept, log } = book
  const { isLog, holdsSlots } = algorithm ? ALGORITHMS[algorithm] : {}
  if (holdsSlots) {
    const held = (kept.state ?? { slots: new Map(), expiresAtMs: 0 }) as ConcurrencyState
    writeSlots(book.slots, held, rows)
    return kept.state === undefined ? {} : { slotsExpireAtMs: held.expiresAtMs }
  }
  if (kept.state === undefined) return {}
  if (!isLog) return { state: fromState(kept.state) }
  const whole = kept.state as SlidingWindowState
  const { length } = whole.dates
  const { keptMs, penaltyMs, penalty, head } = whole
  const entries = entriesOf(whole, length - log.tail, length)
  return { log: { keptMs, penaltyMs, penalty, entries, live: length - head } }
}

/** @param written what the rows hold */
function writeSlots(written: Map<number, Held>, { slots }: ConcurrencyState, rows: Rows): void {
  for (const slot of written.keys()) {
    if (slots.has(slot)) continue
    rows.delete(SLOTS, slot)
    written.delete(slot)
  }
  for (const [slot, held] of slots) {
    // What has changed is another object.
    if (written.get(slot) === held) continue
    rows.put(SLOTS, slot, `[${held.units},${held.deadlineMs}]`)
    written.set(slot, held)
  }
}

/** Windows by their length are a map, which JSON has not. */
function fromState(state: unknown): unknown {
  return state instanceof Map ? [...state] : state
}

function toState(state: unknown): unknown {
  return Array.isArray(state) ? new Map(state) : (state ?? undefined)
}
