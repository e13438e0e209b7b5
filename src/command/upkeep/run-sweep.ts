import { CommandError, type Exit } from '../command-error.ts'
import type { Context, Fields } from '../subcommand.ts'
import type { Terminal } from '../terminal.ts'
import { type Database, DatabaseError } from './database.ts'
import { countBare, type Job } from './jobs.ts'
import { ResumeFile } from './resume-file.ts'
import { type Progress, type Summary, sweep } from './sweep.ts'

/** Keys that `--sample` looks at. */
const SAMPLE_KEYS = 10_000
/** A run that is killed loses what it has noted since, and finds those keys done. */
const SAVE_EVERY_MS = 250

export interface SweepRun {
  readonly database: Database
  /** To be shown, and to tell its unfinished runs from others': without credentials. */
  readonly databaseName: string
  readonly job: Job
  readonly match: string
  readonly count?: number | undefined
  readonly mode: 'apply' | 'dry-run' | 'sample'
  readonly resumes: boolean
  /** The summary's sentence. */
  tell(summary: Summary): string
  /** Fields of its JSON beside those of every job. */
  fields(summary: Summary): Readonly<Record<string, unknown>>
}

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
  restarts: 'how often it began anew, as another process of Redis answered',
  matching: 'of a sample: keys of the whole database that match, by estimate; else null',
  examples: 'some of the keys found',
  'examples[]': 'name of one',
}

/** Runs a job over a database, with a bar, a file to go on from and a summary. */
export async function runSweep({ terminal, env, signal }: Context, run: SweepRun): Promise<Exit> {
  const { database, job, match, mode } = run
  const file = mode === 'sample' ? undefined : resumeFile(run, env)
  const earlier = startOf(run, file, terminal)
  const startedMs = performance.now()
  const seconds = () => (performance.now() - startedMs) / 1_000
  const save = ({ position, tally, share }: Progress) =>
    file?.write({ position, tally, share, seconds: (earlier?.seconds ?? 0) + seconds() }) ?? false

  const databaseKeys = await database.size().catch((error: unknown) => {
    throw toCommandError(error)
  })
  const startShare = earlier?.share ?? 0
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
  let summary: Summary
  try {
    summary = await sweep({
      ...{ database, job, match, signal, onProgress },
      ...(run.count !== undefined && { count: run.count }),
      ...(earlier && { from: earlier.position, tally: earlier.tally }),
      ...(mode === 'sample' && { sampleKeys: SAMPLE_KEYS }),
    })
  } catch (error) {
    const isSaved = latest !== undefined && save(latest)
    throw toCommandError(error, isSaved ? 'The same command with --resume goes on from there.' : undefined)
  } finally {
    bar.end()
  }
  const { isComplete, restarts } = summary
  if (isComplete) file?.remove()
  if (restarts > 0) terminal.note('another process of Redis answered than at the start: began anew')
  const took = seconds()
  const newlySeen = summary.tally.seen - (earlier?.tally.seen ?? 0)
  const keysPerSecond = Math.round(newlySeen / Math.max(took, 0.001))
  terminal.show(
    {
      complete: isComplete,
      dryRun: mode !== 'apply',
      match,
      ...{ seen: summary.tally.seen, ...run.fields(summary), gone: summary.tally.gone },
      unnameable: summary.tally.unnameable,
      share: round(summary.share),
      seconds: round((earlier?.seconds ?? 0) + took),
      keysPerSecond,
      longestScriptMs: summary.longestScriptUs === undefined ? null : summary.longestScriptUs / 1_000,
      ...{ pauses: summary.pauses, restarts },
      matching: mode === 'sample' ? estimate(summary.tally.seen, summary) : null,
      examples: summary.examples,
    },
    () => sentences(run, summary, took, keysPerSecond).join('\n'),
  )
  if (isComplete || (mode === 'sample' && !signal.aborted)) return 'done'
  const isSaved = save(summary)
  terminal.note(
    `stopped at ${percent(summary.share)}${isSaved ? ': the same command with --resume goes on from there' : ''}`,
  )
  return 'interrupted'
}

/** What the whole database holds, by what was found in a part of it. */
export function estimate(found: number, { share }: Pick<Summary, 'share'>): number {
  return Math.round(found / Math.max(share, Number.EPSILON))
}

/** The job, or one in its place that writes nothing. */
export function jobFor(job: Job, mode: SweepRun['mode'], count: Job = countBare): Job {
  return mode === 'apply' ? job : count
}

/** @throws CommandError in its place */
export function toCommandError(error: unknown, hint?: string): unknown {
  if (!(error instanceof DatabaseError)) return error
  return new CommandError(error.message, { exit: 'redis', ...(hint !== undefined && { hint }) })
}

export function percent(share: number): string {
  return `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`
}

export function number(value: number): string {
  return value.toLocaleString('en')
}

function resumeFile({ databaseName, job, match }: SweepRun, env: Context['env']): ResumeFile {
  return new ResumeFile({ database: databaseName, job: job.name, match }, env)
}

function startOf({ resumes }: SweepRun, file: ResumeFile | undefined, terminal: Terminal) {
  const unfinished = file?.read()
  if (!resumes) {
    if (unfinished) {
      const at = percent(unfinished.share)
      terminal.note(`an earlier run stopped at ${at}, and --resume goes on from there: this one begins at the start`)
    }
    return undefined
  }
  if (!unfinished) terminal.note('no earlier run to go on from: beginning at the start')
  else terminal.note(`going on at ${percent(unfinished.share)}`)
  return unfinished
}

function sentences(run: SweepRun, summary: Summary, seconds: number, keysPerSecond: number): string[] {
  const { tally, share, examples, pauses } = summary
  const lines = [run.tell(summary)]
  if (run.mode === 'sample' && !summary.isComplete) {
    lines.unshift(
      `looked at ${percent(share)} of the database; about ${number(estimate(tally.seen, summary))} keys match`,
    )
    lines.push(
      `a whole run that changes nothing would take about ${number(Math.ceil(seconds / Math.max(share, 0.0001)))} s`,
    )
  }
  if (run.mode !== 'apply' && examples.length > 0) {
    lines.push(`e.g. ${examples.map((name) => JSON.stringify(name)).join(', ')}`)
  }
  if (tally.unnameable > 0) {
    lines.push(
      `${number(tally.unnameable)} left alone: their names are not text, which REST cannot carry (redis:// can)`,
    )
  }
  const rests = pauses === 0 ? '' : `; paused ${pauses}× as the server was slow`
  lines.push(`${seconds.toFixed(1)} s, ${number(keysPerSecond)} keys/s${rests}`)
  return lines
}

function round(value: number): number {
  return Math.round(value * 1_000) / 1_000
}
