/** Asks, runs and reports a sweep, and goes on from where an earlier one has stopped: what `expire` and `delete` share. */
import { type Command, Option } from '@commander-js/extra-typings'
import { StoreError } from '../../core/model/store.ts'
import { integer } from '../../http/config/values.ts'
import { CommandError, type Exit } from '../command-error.ts'
import { formatNumber, formatPercent } from '../format.ts'
import { createOption } from '../read-option.ts'
import { type Connection, connect, PATIENT_SILENCE_MS } from '../redis/connection.ts'
import { readSettings } from '../settings/settings.ts'
import { CONFIG, type Context, ENV, REDIS, YES } from '../subcommand.ts'
import type { Terminal } from '../terminal.ts'
import { countKeys, type Job } from './database.ts'
import { ResumeFile, type Unfinished } from './resume-file.ts'
import { MAX_KEYS, type SweepOptions, type SweepProgress, sweep, type Tally } from './sweep.ts'

const KEYS_BEFORE_QUESTION = 1_000
const SAMPLE_KEYS = 10_000
/** A killed run repeats the work since the last save, which finds those keys done. */
const SAVE_EVERY_MS = 250

const MATCH = new Option('-m, --match <pattern>', 'keys, as SCAN matches them: * ? [a-z], and \\ before these signs')

/** Declares the options that both subcommands have. */
export function declareSweep(command: Command) {
  return command
    .addOption(MATCH.makeOptionMandatory())
    .addOption(createOption('--count <keys>', 'maximum of one SCAN and script (default: 1000)', integer(1, MAX_KEYS)))
    .addOption(new Option('--dry-run', 'change nothing, and show what would be changed'))
    .addOption(new Option('--resume', 'go on where the last run of the same command was stopped or killed'))
    .addOption(YES)
    .addOption(REDIS)
    .addOption(CONFIG)
    .addOption(ENV)
}

type SweepFlags = ReturnType<ReturnType<typeof declareSweep>['opts']> & { readonly sample?: true | undefined }

interface SweepCommand {
  readonly job: Job
  /** Counts what the job would change, for the question, `--dry-run` and `--sample`. */
  readonly countJob: Job
  /** The beginning of the question, before e.g. "about 1,000 keys". */
  readonly question: string
  formatSummary(tally: Tally, isDryRun: boolean): string
  /** @param total the changes extrapolated to the whole database, for a sample */
  toJson(tally: Tally, total: number | null): Readonly<Record<string, unknown>>
}

/** Asks, applies the job to each database with a progress bar and a file to resume from, and prints a summary. */
export async function runSweep(context: Context, flags: SweepFlags, command: SweepCommand): Promise<Exit> {
  const { match, redis, config } = flags
  const { cwd, env } = context
  const mustConfirm = !isTrial(flags) && !flags.yes
  if (mustConfirm && match.replace(/\[(?:\\.|[^\]])*\]?|[*?]/g, '') === '') {
    throw new CommandError(`--match ${JSON.stringify(match)} matches every key; confirm with --yes`)
  }
  const settings = readSettings({ cwd, shell: env, config, env: flags.env, view: 'development' })
  const connections = await connect(settings, env, redis, { silenceMs: PATIENT_SILENCE_MS })
  try {
    let exit: Exit = 'done'
    for (const connection of connections) {
      if (exit === 'done') exit = await sweepOne(context, flags, command, connection, mustConfirm)
    }
    return exit
  } finally {
    await Promise.all(connections.map((connection) => connection.close()))
  }
}

function isTrial({ dryRun, sample }: SweepFlags): boolean {
  return (dryRun ?? sample) === true
}

async function sweepOne(
  context: Context,
  flags: SweepFlags,
  command: SweepCommand,
  connection: Connection,
  mustConfirm: boolean,
): Promise<Exit> {
  const { match, count, sample } = flags
  const { terminal, signal, env } = context
  const job = isTrial(flags) ? command.countJob : command.job
  const options: SweepOptions = { connection, job, match, count, signal }
  if (mustConfirm) {
    const found = await sweep({ ...options, job: command.countJob, sampleKeys: KEYS_BEFORE_QUESTION })
    const amount = `${found.isComplete ? '' : 'about '}${formatNumber(extrapolate(found.tally.changed, found))}`
    const names = found.examples.length > 0 ? `, such as ${quote(found.examples)}` : ''
    const question = `${command.question} ${amount} keys of ${connection.database}${names}?`
    if (!(await terminal.confirm(question, 'Give --yes, or see with --dry-run.'))) {
      terminal.note('nothing was changed')
      return 'done'
    }
  }
  const file = sample ? undefined : new ResumeFile([connection.database, job.name, match], env)
  return applyJob(context, flags, command, options, file)
}

async function applyJob(
  { terminal, signal }: Context,
  flags: SweepFlags,
  command: SweepCommand,
  options: SweepOptions,
  file: ResumeFile | undefined,
): Promise<Exit> {
  const { resume, sample } = flags
  const from = findStart(terminal, file, resume === true)
  const { share: startShare = 0, seconds: earlierSeconds = 0, tally: earlier } = from ?? {}
  const startedMs = performance.now()
  const seconds = () => (performance.now() - startedMs) / 1_000
  const save = ({ cursor, tally, share }: SweepProgress) =>
    file?.write({ cursor, tally, share, seconds: earlierSeconds + seconds() }) ?? false

  const databaseKeys = await countKeys(options.connection)
  const bar = terminal.startProgress('keys', Math.ceil(databaseKeys * (1 - startShare)))
  let latest: SweepProgress | undefined
  let savedAtMs = startedMs
  let shownReason: string | undefined
  const onProgress = (progress: SweepProgress) => {
    latest = progress
    bar.update(Math.max(0, Math.round((progress.share - startShare) * databaseKeys)))
    if (progress.waitsFor !== shownReason && progress.waitsFor) terminal.note(`waiting: ${progress.waitsFor}`)
    shownReason = progress.waitsFor
    if (performance.now() - savedAtMs < SAVE_EVERY_MS) return
    savedAtMs = performance.now()
    save(progress)
  }
  const summary = await sweep({ ...options, from, onProgress, ...(sample && { sampleKeys: SAMPLE_KEYS }) })
    .catch((error: unknown) => {
      if (!(error instanceof StoreError) || latest === undefined || !save(latest)) throw error
      const hint = 'The same command with --resume goes on from there.'
      throw new CommandError(error.message, { exit: 'redis', hint })
    })
    .finally(() => bar.stop())
  const { isComplete, share, pauses } = summary
  if (isComplete) file?.remove()
  const run = {
    match: options.match,
    isDryRun: isTrial(flags),
    isSample: sample === true,
    seconds: seconds(),
    earlierSeconds,
    earlier,
  }
  showSummary(terminal, command, summary, run)
  if (isComplete && (from || pauses > 0)) {
    terminal.note('if Redis was restarted or failed over meanwhile, keys were missed: run it once more')
  }
  if (isComplete || (sample && !signal.aborted)) return 'done'
  const hint = save(summary) ? ': the same command with --resume goes on from there' : ''
  terminal.note(`stopped at ${formatPercent(share)}${hint}`)
  return 'interrupted'
}

/** @returns where an earlier run has stopped, if this one is to go on from there */
function findStart(terminal: Terminal, file: ResumeFile | undefined, resumes: boolean): Unfinished | undefined {
  const unfinished = file?.read()
  const share = unfinished && formatPercent(unfinished.share)
  if (resumes) {
    terminal.note(share ? `going on at ${share}` : 'no earlier run to go on from: beginning at the start')
  } else if (share) terminal.note(`an earlier run stopped at ${share}; --resume would go on from there`)
  return resumes ? unfinished : undefined
}

interface UpkeepRun {
  readonly match: string
  readonly isDryRun: boolean
  readonly isSample: boolean
  readonly seconds: number
  /** Earlier runs of this job took so long, and had seen this. */
  readonly earlierSeconds: number
  readonly earlier: Tally | undefined
}

function showSummary(
  terminal: Terminal,
  { formatSummary, toJson }: SweepCommand,
  summary: SweepProgress,
  { match, isDryRun, isSample, seconds, earlierSeconds, earlier }: UpkeepRun,
): void {
  const { isComplete, tally, share, examples, pauses, longestScriptUs } = summary
  const keysPerSecond = Math.round((tally.seen - (earlier?.seen ?? 0)) / Math.max(seconds, 0.001))
  const matching = isSample ? extrapolate(tally.seen, summary) : null
  const result = {
    complete: isComplete,
    dryRun: isDryRun,
    match,
    seen: tally.seen,
    ...toJson(tally, isSample ? extrapolate(tally.changed, summary) : null),
    gone: tally.gone,
    unnameable: tally.unnameable,
    share: round(share),
    seconds: round(earlierSeconds + seconds),
    keysPerSecond,
    longestScriptMs: longestScriptUs === undefined ? null : longestScriptUs / 1_000,
    pauses,
    matching,
    examples,
  }
  terminal.show(result, () => {
    const lines = [formatSummary(tally, isDryRun)]
    if (matching !== null && !isComplete) {
      lines.unshift(`looked at ${formatPercent(share)} of the database; about ${formatNumber(matching)} keys match`)
      const whole = formatNumber(Math.ceil(seconds / Math.max(share, 0.0001)))
      lines.push(`a whole run that changes nothing would take about ${whole} s`)
    }
    if (isDryRun && examples.length > 0) lines.push(`e.g. ${quote(examples)}`)
    if (tally.unnameable > 0) {
      const skipped = formatNumber(tally.unnameable)
      lines.push(`${skipped} skipped: their names are not text, which REST cannot carry (redis:// can)`)
    }
    return [...lines, `${seconds.toFixed(1)} s, ${formatNumber(keysPerSecond)} keys/s`].join('\n')
  })
}

function extrapolate(found: number, { share }: Pick<SweepProgress, 'share'>): number {
  return Math.round(found / Math.max(share, Number.EPSILON))
}

function quote(names: readonly string[]): string {
  return names.map((name) => JSON.stringify(name)).join(', ')
}

function round(value: number): number {
  return Math.round(value * 1_000) / 1_000
}
