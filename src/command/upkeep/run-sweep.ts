import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import * as v from 'valibot'
import { StoreError } from '../../model/store.ts'
import { CommandError, type Exit } from '../command-error.ts'
import { formatNumber } from '../format.ts'
import type { OperatorOptions } from '../operate/options.ts'
import { connect } from '../redis/connection.ts'
import { readSettings } from '../settings/settings.ts'
import type { Context } from '../subcommand.ts'
import { Database, type Job, SILENCE_MS } from './database.ts'
import { type Progress, sweep, type Tally } from './sweep.ts'

const KEYS_BEFORE_QUESTION = 1_000
const SAMPLE_KEYS = 10_000
/** A killed run repeats the work since the last save, which finds those keys done. */
const SAVE_EVERY_MS = 250

interface SweepFlags extends Pick<OperatorOptions, 'redis' | 'config' | 'env'> {
  readonly match: string
  readonly count?: number | undefined
  readonly dryRun?: true | undefined
  readonly sample?: true | undefined
  readonly yes?: true | undefined
  readonly resume?: true | undefined
}

type Mode = 'apply' | 'dry-run' | 'sample'

/** The difference between `expire` and `delete`. */
interface SweepCommand {
  readonly job: Job
  /** Counts what the job would change, for the question, `--dry-run` and `--sample`. */
  readonly countJob: Job
  /** Completes "It would …" in the warning about a pattern such as `*`. */
  readonly effect: string
  /** @param keys e.g. "about 1,000 keys" */
  formatQuestion(keys: string, database: string): string
  formatSummary(tally: Tally, mode: Mode): string
  /** Adds to the fields of SWEEP_FIELDS. */
  toJson(summary: Progress, mode: Mode): Readonly<Record<string, unknown>>
}

/** Asks, applies the job to the database with a progress bar and a file to resume from, and prints a summary. */
export async function runSweep(context: Context, flags: SweepFlags, command: SweepCommand): Promise<Exit> {
  const { match, redis, config, env } = flags
  const mode = flags.sample ? 'sample' : flags.dryRun ? 'dry-run' : 'apply'
  const asks = mode === 'apply' && !flags.yes
  if (asks && match.replace(/\[(?:\\.|[^\]])*\]?|[*?]/g, '') === '') {
    throw new CommandError(`--match ${JSON.stringify(match)} names no part of a key`, {
      hint: `It would ${command.effect}. --yes says that this is meant.`,
    })
  }
  const settings = readSettings({ cwd: context.cwd, shell: context.env, config, env, view: 'development' })
  const connection = await connect(settings, context.env, redis, SILENCE_MS)
  const database = new Database(connection)
  try {
    if (asks && !(await confirm(context, flags, command, database, connection.database))) return 'interrupted'
    const job = mode === 'apply' ? command.job : command.countJob
    const file = mode === 'sample' ? undefined : new ResumeFile([connection.database, job.name, match], context.env)
    return await applyJob(context, flags, command, mode, job, database, file)
  } finally {
    await connection.close()
  }
}

/** Shows the number of keys and some of them. @throws {CommandError} without a terminal */
async function confirm(
  { terminal, signal }: Context,
  { match }: SweepFlags,
  { countJob: job, formatQuestion }: SweepCommand,
  database: Database,
  name: string,
): Promise<boolean> {
  const sample = await sweep({ database, job, match, signal, sampleKeys: KEYS_BEFORE_QUESTION })
  const { tally, isComplete, examples } = sample
  const amount = isComplete ? formatNumber(tally.changed) : `about ${formatNumber(estimate(tally.changed, sample))}`
  const suffix = examples.length > 0 ? `, such as ${quote(examples)}` : ''
  const answer = await terminal.confirm(`${formatQuestion(`${amount} keys`, name)}${suffix}?`, signal)
  if (answer === undefined) {
    throw new CommandError('there is nobody to ask whether this is meant', {
      hint: 'Give --yes, or see with --dry-run.',
    })
  }
  if (!answer) terminal.note('nothing was changed')
  return answer
}

async function applyJob(
  { terminal, signal }: Context,
  { match, count, resume }: SweepFlags,
  { formatSummary, toJson }: SweepCommand,
  mode: Mode,
  job: Job,
  database: Database,
  file: ResumeFile | undefined,
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
  let shownReason: string | undefined
  const onProgress = (progress: Progress) => {
    latest = progress
    bar.set(Math.max(0, Math.round((progress.share - startShare) * databaseKeys)))
    if (progress.waitsFor !== shownReason && progress.waitsFor) terminal.note(`waiting: ${progress.waitsFor}`)
    shownReason = progress.waitsFor
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
    ...toJson(summary, mode),
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
    const lines = [formatSummary(tally, mode)]
    if (matching !== null && !isComplete) {
      lines.unshift(`looked at ${percent(share)} of the database; about ${formatNumber(matching)} keys match`)
      const whole = formatNumber(Math.ceil(took / Math.max(share, 0.0001)))
      lines.push(`a whole run that changes nothing would take about ${whole} s`)
    }
    if (mode !== 'apply' && examples.length > 0) lines.push(`e.g. ${quote(examples)}`)
    if (tally.unnameable > 0) {
      const left = formatNumber(tally.unnameable)
      lines.push(`${left} left alone: their names are not text, which REST cannot carry (redis:// can)`)
    }
    const pauseNote = pauses === 0 ? '' : `; paused ${pauses}× as the server was slow`
    return [...lines, `${took.toFixed(1)} s, ${formatNumber(keysPerSecond)} keys/s${pauseNote}`].join('\n')
  })
  if (isComplete || (mode === 'sample' && !signal.aborted)) return 'done'
  const hint = save(summary) ? ': the same command with --resume goes on from there' : ''
  terminal.note(`stopped at ${percent(share)}${hint}`)
  return 'interrupted'
}

/** Extrapolates from a part of the database to the whole. */
export function estimate(found: number, { share }: Pick<Progress, 'share'>): number {
  return Math.round(found / Math.max(share, Number.EPSILON))
}

export function percent(share: number): string {
  return `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`
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
  tally: v.object({ seen: AMOUNT, changed: AMOUNT, kept: AMOUNT, gone: AMOUNT, unnameable: AMOUNT }),
  share: v.pipe(v.number(), v.minValue(0), v.maxValue(1)),
  seconds: v.pipe(v.number(), v.minValue(0)),
})
type Unfinished = Readonly<v.InferOutput<typeof UNFINISHED>>

/** A small file from which a stopped or killed run resumes, one per job. */
export class ResumeFile {
  readonly path: string

  /** @param identity database without credentials, job, pattern */
  constructor(identity: readonly string[], env: Context['env']) {
    const hash = createHash('sha256').update(JSON.stringify(identity)).digest('hex')
    const folder = env.XDG_STATE_HOME || join(env.HOME || homedir(), '.local', 'state')
    this.path = join(folder, 'sluice', `${hash.slice(0, 16)}.json`)
  }

  /** @returns undefined if it is missing or unusable */
  read(): Unfinished | undefined {
    try {
      return v.parse(UNFINISHED, JSON.parse(readFileSync(this.path, 'utf8')))
    } catch {
      return undefined
    }
  }

  /** Replaces the file atomically. @returns false if it cannot be written */
  write(unfinished: Unfinished): boolean {
    const draft = `${this.path}.${process.pid}`
    try {
      mkdirSync(dirname(this.path), { recursive: true, mode: 0o700 })
      writeFileSync(draft, `${JSON.stringify(unfinished)}\n`, { mode: 0o600 })
      renameSync(draft, this.path)
      return true
    } catch {
      return false
    }
  }

  remove(): void {
    rmSync(this.path, { force: true })
  }
}
