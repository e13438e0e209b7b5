import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { InvalidArgumentError, Option } from '@commander-js/extra-typings'
import * as v from 'valibot'
import { StoreError } from '../../model/store.ts'
import type { Exit } from '../command-error.ts'
import { CommandError } from '../command-error.ts'
import { connect } from '../redis/connection.ts'
import { readSettings } from '../settings/settings.ts'
import type { Context, Fields } from '../subcommand.ts'
import { Database, type Job, SILENCE_MS } from './database.ts'

import { MAX_KEYS, type Progress, sweep, type Tally } from './sweep.ts'

export const MATCH = new Option(
  '-m, --match <pattern>',
  'keys, as SCAN matches them: * ? [a-z], and \\ before these signs',
).makeOptionMandatory()
export const COUNT = new Option(
  '--count <keys>',
  `keys of one SCAN and of one script, at most ${MAX_KEYS}; left out, as many as the server does in half a millisecond`,
).argParser((text) => {
  const count = Number(text)
  if (Number.isInteger(count) && count >= 1 && count <= MAX_KEYS) return count
  throw new InvalidArgumentError(`Expected an integer from 1 to ${MAX_KEYS}.`)
})
export const DRY_RUN = new Option('--dry-run', 'change nothing, and tell what would be changed')
export const YES = new Option('-y, --yes', 'do not ask; needed for a pattern that names no part of a key, such as *')
export const RESUME = new Option('--resume', 'go on where the last run of the same command was stopped or killed')

export const SWEEP_FIELDS: Fields = {
  complete: 'whether it came to the end',
  dryRun: 'whether nothing was changed',
  match: 'the pattern',
  seen: 'matching keys that were found, each once for every time that SCAN answered it',
  gone: 'keys that were gone when their turn came',
  unnameable: 'keys left alone, as their names are not text (over REST only)',
  share: 'share of the database that was gone through, 0 to 1',
  seconds: 'time taken, by earlier runs that it went on from as well',
  keysPerSecond: 'matching keys found in a second, by this run',
  longestScriptMs: 'the longest script, by the server’s clock; null where it tells none',
  pauses: 'how often it waited as the server was slow',
  matching: 'of a sample: keys of the whole database that match, by estimate; else null',
  examples: 'some of the keys found',
  'examples[]': 'name of one',
}

/** Keys that are looked at before the question, and by `--sample`. */
const KEYS_BEFORE_QUESTION = 1_000
const SAMPLE_KEYS = 10_000
/** A run that is killed loses what it has noted since, and finds those keys done. */
const SAVE_EVERY_MS = 250

/** What the command line says. */
interface SweepFlags {
  readonly match: string
  readonly count?: number | undefined
  readonly dryRun?: true | undefined
  readonly sample?: true | undefined
  readonly yes?: true | undefined
  readonly resume?: true | undefined
  readonly redis?: string | undefined
  readonly config?: string | undefined
  readonly env?: string | undefined
}

type Mode = 'apply' | 'dry-run' | 'sample'

/** What tells one subcommand that goes through all keys from the other. */
interface Sweeping {
  readonly job: Job
  /** Counts what the job would change, before it is asked for, and in its place. */
  readonly countJob: Job
  /** What it would do to all keys, where a pattern names no part of one. */
  readonly would: string
  /** @param keys e.g. "about 1,000 keys" */
  ask(keys: string, database: string): string
  /** The summary's sentence. */
  tell(tally: Tally, mode: Mode): string
  /** Fields of its JSON beside those of every job. */
  fields(summary: Progress, mode: Mode): Readonly<Record<string, unknown>>
}

/** Runs a job over a database: asks first, shows a bar, keeps a file to go on from, and prints a summary. */
export async function runSweep(context: Context, flags: SweepFlags, sweeping: Sweeping): Promise<Exit> {
  const { match, redis, config, env } = flags
  const mode = flags.sample ? 'sample' : flags.dryRun ? 'dry-run' : 'apply'
  const asks = mode === 'apply' && !flags.yes
  if (asks && match.replace(/\[(?:\\.|[^\]])*\]?|[*?]/g, '') === '') {
    throw new CommandError(`--match ${JSON.stringify(match)} names no part of a key`, {
      hint: `It would ${sweeping.would}. --yes says that this is meant.`,
    })
  }
  const settings = readSettings({ cwd: context.cwd, shell: context.env, config, env, view: 'development' })
  const connection = await connect(settings, context.env, redis, SILENCE_MS)
  const database = new Database(connection)
  try {
    if (asks && !(await isMeant(context, flags, sweeping, database, connection.database))) return 'interrupted'
    const job = mode === 'apply' ? sweeping.job : sweeping.countJob
    const file = mode === 'sample' ? undefined : new ResumeFile([connection.database, job.name, match], context.env)
    return await goThrough(context, flags, sweeping, { mode, job, database, file })
  } finally {
    await connection.close()
  }
}

/** Asks the operator, with the number of keys and some of them. @throws {CommandError} if there is nobody to ask */
async function isMeant(
  { terminal, signal }: Context,
  { match }: SweepFlags,
  { countJob: job, ask }: Sweeping,
  database: Database,
  name: string,
): Promise<boolean> {
  const sample = await sweep({ database, job, match, signal, sampleKeys: KEYS_BEFORE_QUESTION })
  const { tally, isComplete, examples } = sample
  const amount = isComplete ? number(tally.changed) : `about ${number(estimate(tally.changed, sample))}`
  const such = examples.length > 0 ? `, such as ${quote(examples)}` : ''
  const answer = await terminal.confirm(`${ask(`${amount} keys`, name)}${such}?`, signal)
  if (answer === undefined) {
    throw new CommandError('there is nobody to ask whether this is meant', {
      hint: 'Give --yes, or see with --dry-run.',
    })
  }
  if (!answer) terminal.note('nothing was changed')
  return answer
}

interface Run {
  readonly mode: Mode
  readonly job: Job
  readonly database: Database
  /** A sample is not gone on with. */
  readonly file: ResumeFile | undefined
}

async function goThrough(
  { terminal, signal }: Context,
  { match, count, resume }: SweepFlags,
  { tell, fields }: Sweeping,
  { mode, job, database, file }: Run,
): Promise<Exit> {
  const unfinished = file?.read()
  const from = resume ? unfinished : undefined
  if (from) terminal.note(`going on at ${percent(from.share)}`)
  else if (resume) terminal.note('no earlier run to go on from: beginning at the start')
  else if (unfinished) {
    const at = percent(unfinished.share)
    terminal.note(`an earlier run stopped at ${at}, and --resume goes on from there: this one begins at the start`)
  }
  const startedMs = performance.now()
  const seconds = () => (performance.now() - startedMs) / 1_000
  const save = ({ cursor, tally, share }: Progress) =>
    file?.write({ cursor, tally, share, seconds: (from?.seconds ?? 0) + seconds() }) ?? false

  const databaseKeys = await database.size()
  const startShare = from?.share ?? 0
  const bar = terminal.progress('keys', Math.ceil(databaseKeys * (1 - startShare)))
  let latest: Progress | undefined
  let savedAtMs = startedMs
  let told: string | undefined
  const onProgress = (progress: Progress) => {
    latest = progress
    bar.set(Math.max(0, Math.round((progress.share - startShare) * databaseKeys)))
    if (progress.waitsFor !== told && progress.waitsFor) terminal.note(`waiting: ${progress.waitsFor}`)
    told = progress.waitsFor
    if (performance.now() - savedAtMs < SAVE_EVERY_MS) return
    savedAtMs = performance.now()
    save(progress)
  }
  const sampleKeys = mode === 'sample' ? SAMPLE_KEYS : undefined
  const summary = await sweep({ database, job, match, count, from, sampleKeys, signal, onProgress })
    .catch((error: unknown) => {
      if (!(error instanceof StoreError) || latest === undefined || !save(latest)) throw error
      const hint = 'The same command with --resume goes on from there.'
      throw new CommandError(error.message, { exit: 'redis', hint })
    })
    .finally(() => bar.end())
  const { isComplete, tally, share, examples, pauses, longestScriptUs } = summary
  if (isComplete) file?.remove()
  const took = seconds()
  const keysPerSecond = Math.round((tally.seen - (from?.tally.seen ?? 0)) / Math.max(took, 0.001))
  const matching = mode === 'sample' ? estimate(tally.seen, summary) : null
  const result = {
    complete: isComplete,
    dryRun: mode !== 'apply',
    match,
    seen: tally.seen,
    ...fields(summary, mode),
    gone: tally.gone,
    unnameable: tally.unnameable,
    share: round(share),
    seconds: round((from?.seconds ?? 0) + took),
    keysPerSecond,
    longestScriptMs: longestScriptUs === undefined ? null : longestScriptUs / 1_000,
    pauses,
    matching,
    examples,
  }
  terminal.show(result, () => {
    const lines = [tell(tally, mode)]
    if (matching !== null && !isComplete) {
      lines.unshift(`looked at ${percent(share)} of the database; about ${number(matching)} keys match`)
      const whole = number(Math.ceil(took / Math.max(share, 0.0001)))
      lines.push(`a whole run that changes nothing would take about ${whole} s`)
    }
    if (mode !== 'apply' && examples.length > 0) lines.push(`e.g. ${quote(examples)}`)
    if (tally.unnameable > 0) {
      const left = number(tally.unnameable)
      lines.push(`${left} left alone: their names are not text, which REST cannot carry (redis:// can)`)
    }
    const rests = pauses === 0 ? '' : `; paused ${pauses}× as the server was slow`
    return [...lines, `${took.toFixed(1)} s, ${number(keysPerSecond)} keys/s${rests}`].join('\n')
  })
  if (isComplete || (mode === 'sample' && !signal.aborted)) return 'done'
  const hint = save(summary) ? ': the same command with --resume goes on from there' : ''
  terminal.note(`stopped at ${percent(share)}${hint}`)
  return 'interrupted'
}

/** What the whole database holds, by what was found in a part of it. */
export function estimate(found: number, { share }: Pick<Progress, 'share'>): number {
  return Math.round(found / Math.max(share, Number.EPSILON))
}

export function percent(share: number): string {
  return `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`
}

export function number(value: number): string {
  return value.toLocaleString('en')
}

function quote(names: readonly string[]): string {
  return names.map((name) => JSON.stringify(name)).join(', ')
}

function round(value: number): number {
  return Math.round(value * 1_000) / 1_000
}

const AMOUNT = v.pipe(v.number(), v.integer(), v.minValue(0))
const UNFINISHED = v.object({
  cursor: v.pipe(v.string(), v.regex(/^\d{1,20}$/)),
  /** Of all runs so far. */
  tally: v.object({ seen: AMOUNT, changed: AMOUNT, kept: AMOUNT, gone: AMOUNT, unnameable: AMOUNT }),
  share: v.pipe(v.number(), v.minValue(0), v.maxValue(1)),
  seconds: v.pipe(v.number(), v.minValue(0)),
})
/** Where a run of a job stands that has not come to its end. */
type Unfinished = Readonly<v.InferOutput<typeof UNFINISHED>>

/** A small file, from which a run goes on that was killed. Each job has its own. */
export class ResumeFile {
  readonly path: string

  /** @param identity of the job: database without credentials, what is done, pattern */
  constructor(identity: readonly string[], env: Context['env']) {
    const hash = createHash('sha256').update(JSON.stringify(identity)).digest('hex')
    const folder = env.XDG_STATE_HOME || join(env.HOME || homedir(), '.local', 'state')
    this.path = join(folder, 'sluice', `${hash.slice(0, 16)}.json`)
  }

  /** @returns undefined if there is none, or none that can be used */
  read(): Unfinished | undefined {
    try {
      return v.parse(UNFINISHED, JSON.parse(readFileSync(this.path, 'utf8')))
    } catch {
      return undefined
    }
  }

  /** Puts it in place whole. @returns whether it could be written */
  write(unfinished: Unfinished): boolean {
    const written = `${this.path}.${process.pid}`
    try {
      mkdirSync(dirname(this.path), { recursive: true, mode: 0o700 })
      writeFileSync(written, `${JSON.stringify(unfinished)}\n`, { mode: 0o600 })
      renameSync(written, this.path)
      return true
    } catch {
      return false
    }
  }

  remove(): void {
    rmSync(this.path, { force: true })
  }
}
