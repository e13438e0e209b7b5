/** `sluice simulate`: what limits would have done to the requests of a log. */
import { LEASES, parsed } from '../core/options/readers.ts'
import { inText, integer, LIMITS } from '../http/config/values.ts'
import { CommandError } from './command-error.ts'
import { formatCount } from './format.ts'
import { createListOption, createOption } from './read-option.ts'
import { readSettings } from './settings/settings.ts'
import { type LogReading, readLogs } from './simulate/log-files.ts'
import { parseFields, USUAL_FIELDS } from './simulate/log-line.ts'
import { preparePageFile, renderPage } from './simulate/page.ts'
import { formatResults } from './simulate/report.ts'
import { Simulation } from './simulate/simulation.ts'
import { generateTraffic, parseTraffic } from './simulate/traffic.ts'
import { combine, loadVariant, SIMULATED_ALGORITHMS } from './simulate/variants.ts'
import { CONFIG, defineCommand, ENV } from './subcommand.ts'
import { noteDigests } from './worker-config.ts'

const ALGORITHMS = SIMULATED_ALGORITHMS.join(', ')
const ALGORITHM = parsed(`one of ${ALGORITHMS}`, (text) => SIMULATED_ALGORITHMS.find((name) => name === text))

/** Servers write a line when a response ends, so lines are a little out of order. */
const LATE_MS = 1_000

export const simulate = defineCommand({
  name: 'simulate',
  summary: 'replay traffic through the policies, offline',
  description:
    'Shows which callers the limits would refuse, before a deploy: replays an access log, or described traffic, through the ' +
    'configured policies, by the times of the requests, with the code of the Worker and without a database. It reads the ' +
    'Common and the Combined Log Format and lines of JSON; the user, remote_user or authorization stands for a token. A line ' +
    'that is earlier than the one before counts as of the same time. It remembers 100,000 keys, as the store in memory does.',
  examples: {
    'simulate access.log.2.gz access.log': 'whom the limits of wrangler.toml would have hit',
    "simulate access.log --limits '10/1s' --limits '20/1s, 600/1m'": 'two limits side by side',
    "simulate access.log --limits '600/1m' --algorithm sliding-window --algorithm token-bucket":
      'two algorithms side by side',
    'simulate access.log --leases off --leases auto': 'what leases would save',
    "simulate access.log --limits '10/1s' --limits '20/1s' --out limits.html":
      'a page with drawings, to be shown to others',
    'simulate - --fields time=at,ip=client.address,path=http.path,header.x-key=key':
      'a log of JSON with names of its own, from standard input',
    "simulate --traffic '50 callers, 3/s each, bursts of 20 every minute, for 10m'": 'traffic that nobody has logged',
  },
  declare: (command) =>
    command
      .argument('[log...]', 'files in order of time, unpacked if they end in .gz; - is standard input')
      .option('-t, --traffic <words>', 'in place of a log, such as "50 callers, 3/s each"', parseTraffic)
      .addOption(createOption('--seed <number>', 'other traffic of the same kind', integer(0, 999_999_999)).default(1))
      .addOption(createListOption('-l, --limits <limits>', 'in place of RATE_LIMITS; repeated, side by side', LIMITS))
      .addOption(createListOption('-a, --algorithm <name>', `of RATE_LIMITS: ${ALGORITHMS}; repeated`, ALGORITHM))
      .addOption(createListOption('--leases <size>', 'off, auto or a number of permits; repeated', inText(LEASES)))
      .option('--fields <pairs>', 'where JSON has what, such as time=ts,ip=client.ip,header.x-key=key', parseFields)
      .option('-o, --out <file>', 'draw it into a page, too, with tables: .html')
      .option('--force', 'replace the file that --out names')
      .option('--show-callers', 'what the log has of callers, in place of digests')
      .addOption(CONFIG)
      .addOption(ENV),
  async run(context, { traffic, seed, fields, out, force = false, showCallers, config, env, ...tried }, files) {
    const { terminal, signal } = context
    if (files.length > 0 === (traffic !== undefined)) {
      const hint = 'For example: sluice simulate access.log'
      throw new CommandError('expected either logs or --traffic', { hint })
    }
    const writePage = out === undefined ? undefined : preparePageFile(out, context.cwd, force)
    const settings = readSettings({ cwd: context.cwd, shell: context.env, config, env, view: 'development' })
    const runs = combine(tried).map((variant) => {
      return { variant, simulation: new Simulation(loadVariant(settings, variant), variant.leases ?? undefined) }
    })
    if (!showCallers && traffic === undefined) noteDigests(settings, terminal)

    const reading: LogReading = { lines: 0, unreadable: 0, first: null }
    const startedAtMs = performance.now()
    const progress = terminal.startProgress(traffic ? 'requests' : 'bytes', 1)
    const batches = traffic
      ? generateTraffic(traffic, seed)
      : readLogs(files, fields ?? USUAL_FIELDS, terminal, reading)
    const seen = { requests: 0, fromMs: Number.POSITIVE_INFINITY, toMs: 0, isWhole: true, late: 0 }
    try {
      for await (const { entries, done, total } of batches) {
        for (const entry of entries) {
          seen.requests++
          if (entry.timeMs < seen.toMs - LATE_MS) seen.late++
          seen.fromMs = Math.min(seen.fromMs, entry.timeMs)
          seen.toMs = Math.max(seen.toMs, entry.timeMs)
          seen.isWhole &&= entry.timeMs % 1_000 === 0
          for (const { simulation } of runs) await simulation.replay(entry)
        }
        if (total > 0) {
          progress.setTotal(total)
          progress.update(done)
        }
        // Gives the handler of Ctrl-C a turn.
        await new Promise(setImmediate)
        if (signal.aborted) break
      }
    } finally {
      progress.stop()
    }
    const seconds = (performance.now() - startedAtMs) / 1_000
    if (seen.requests === 0 && reading.unreadable > 0) {
      const hint = 'It takes the Common and Combined Log Format, and JSON; --fields says where JSON has what.'
      throw new CommandError(`no line could be read; the first is ${formatFirst(reading)}`, { hint })
    }
    const notes = [...new Set(runs.flatMap(({ simulation }) => simulation.caveats))]
    if (seen.isWhole && seen.requests > 0)
      notes.push('all times are whole seconds: what happens within a second is not seen')
    if (seen.late > 0) {
      const late = formatCount(seen.late, 'request')
      notes.push(`${late} over a second earlier than one before: are the logs in order of time?`)
    }
    if (runs.some(({ simulation }) => simulation.store.isFull)) {
      notes.push('there were more keys than are remembered: callers that came back late began anew')
    }
    const results = runs.map(({ simulation, variant }) => ({
      ...variant,
      ...simulation.summarize(showCallers === true),
    }))
    const result = {
      complete: !signal.aborted,
      requests: seen.requests,
      from: seen.requests > 0 ? new Date(seen.fromMs).toISOString() : null,
      to: seen.requests > 0 ? new Date(seen.toMs).toISOString() : null,
      lines: reading.lines,
      unreadable: reading.unreadable,
      firstUnreadable: reading.first,
      seconds: Number(seconds.toFixed(3)),
      requestsPerSecond: Math.round(seen.requests / Math.max(seconds, 0.001)),
      out: out ?? null,
      notes,
      results,
    }
    const between = result.from === null ? '' : ` from ${result.from} to ${result.to}`
    const requests = `${result.complete ? '' : 'stopped early: '}${formatCount(seen.requests, 'request')}${between}`
    await writePage?.(await renderPage([requests, ...notes], results))
    terminal.show(result, () =>
      [
        `${requests}, simulated in ${seconds.toFixed(1)} s`,
        ...(reading.unreadable > 0
          ? [`${formatCount(reading.unreadable, 'line')} could not be read; the first is ${formatFirst(reading)}`]
          : []),
        ...notes.map((text) => `note: ${text}`),
        ...(out === undefined ? [] : [`drawn into ${out}`]),
        '',
        formatResults(results, terminal),
      ].join('\n'),
    )
    return signal.aborted ? 'interrupted' : 'done'
  },
})

function formatFirst({ first }: LogReading): string {
  if (!first) return ''
  const file = first.file === '-' ? 'standard input' : first.file
  return `line ${first.line} of ${file}: ${JSON.stringify(first.text)}`
}
