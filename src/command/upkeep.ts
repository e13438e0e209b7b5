/** Subcommands that go through all keys of a database. */
import { Option } from '@commander-js/extra-typings'
import { formatWindow } from '../model/limits.ts'
import { formatNumber } from './format.ts'
import { parseDurationOption, parseInteger } from './operate/options.ts'
import { CONFIG, defineCommand, ENV, type Fields, REDIS } from './subcommand.ts'
import { countAll, countBare, deleteKeys, expire as expireJob } from './upkeep/database.ts'
import { estimate, runSweep } from './upkeep/run-sweep.ts'
import { MAX_KEYS } from './upkeep/sweep.ts'

const MATCH = new Option(
  '-m, --match <pattern>',
  'keys, as SCAN matches them: * ? [a-z], and \\ before these signs',
).makeOptionMandatory()
const COUNT = new Option(
  '--count <keys>',
  `keys of one SCAN and of one script, at most ${MAX_KEYS}; left out, as many as the server does in half a millisecond`,
).argParser((text) => parseInteger(text, MAX_KEYS))
const DRY_RUN = new Option('--dry-run', 'change nothing, and tell what would be changed')
const YES = new Option('-y, --yes', 'do not ask; needed for a pattern that names no part of a key, such as *')
const RESUME = new Option('--resume', 'go on where the last run of the same command was stopped or killed')
const TTL = new Option('-t, --ttl <duration>', 'time to live of those keys that have none: 500ms 60s 5m 24h 7d 1w')
  .argParser(parseDurationOption)
  .makeOptionMandatory()
const SAMPLE = new Option('--sample', 'the same for some 10,000 keys, with an estimate of the whole')

const SWEEP_FIELDS: Fields = {
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

export const expire = defineCommand({
  name: 'expire',
  summary: 'give keys without a time to live one',
  description:
    'Goes through all keys of a database that match a pattern, whoever they belong to, and gives those a time to live ' +
    'that have none. Others are left as they are, and so are rules and the history of callers of Sluice, which are to have none. ' +
    'It shows some of the keys and asks first. It searches by SCAN, never by KEYS, sets in scripts that are made to take half ' +
    'a millisecond each, waits while the server is slow or away, and goes on where it was stopped (--resume). ' +
    'Keys that are made during the run may be missed, so first stop what makes them. Redis Cluster is not supported.',
  examples: [
    {
      shows: 'how many keys there are, and how long it would take',
      line: "expire --match 'flashMap_*' --ttl 60s --sample",
    },
    { shows: 'what would be changed', line: "expire --match 'flashMap_*' --ttl 60s --dry-run" },
    { shows: 'do it, once asked', line: "expire --match 'flashMap_*' --ttl 60s" },
    {
      shows: 'go on after Ctrl-C, a crash or a lost connection',
      line: "expire --match 'flashMap_*' --ttl 60s --resume",
    },
    {
      shows: 'in another database, in a script',
      line: "expire --redis redis://10.0.0.5:6379/2 --match 'session:*' --ttl 24h --yes",
    },
  ],
  json: {
    ...SWEEP_FIELDS,
    ttlMs: 'the time to live, in milliseconds',
    set: 'keys that were given it; with --dry-run and --sample, that would be',
    had: 'keys that had one, or are to have none: rules and the history of callers of Sluice',
    settable: 'of a sample: keys of the whole database that would be given one, by estimate; else null',
  },
  declare: (command) =>
    command
      .addOption(MATCH)
      .addOption(TTL)
      .addOption(COUNT)
      .addOption(DRY_RUN)
      .addOption(SAMPLE)
      .addOption(YES)
      .addOption(RESUME)
      .addOption(REDIS)
      .addOption(CONFIG)
      .addOption(ENV),
  run: (context, { ttl, ...flags }) => {
    const lifetime = formatWindow(ttl)
    return runSweep(context, flags, {
      job: expireJob(ttl),
      countJob: countBare,
      effect: 'give whatever there is a time to live',
      formatQuestion: (keys, database) => `Give ${lifetime} to ${keys} of ${database}`,
      formatSummary({ seen, changed, kept, gone }, mode) {
        const what = mode === 'apply' ? `given ${lifetime}` : `have none, and would be given ${lifetime}`
        return `${formatNumber(seen)} keys seen: ${formatNumber(changed)} ${what}, ${formatNumber(kept)} had a time to live, ${formatNumber(gone)} gone`
      },
      toJson: (summary, mode) => ({
        ttlMs: ttl,
        set: summary.tally.changed,
        had: summary.tally.kept,
        settable: mode === 'sample' ? estimate(summary.tally.changed, summary) : null,
      }),
    })
  },
})

export const deleteCommand = defineCommand({
  name: 'delete',
  summary: 'remove keys',
  description:
    'Removes all keys of a database that match a pattern, whoever they belong to, by SCAN and UNLINK in batches. It shows some of them and asks ' +
    'first. It waits while the server is slow or away, and goes on where it was stopped (--resume). Keys of Sluice that are removed are callers ' +
    'who begin anew. For one caller, use reset. Redis Cluster is not supported.',
  examples: [
    { shows: 'what would be removed', line: "delete --match 'flashMap_*' --dry-run" },
    { shows: 'do it, once asked', line: "delete --match 'flashMap_*'" },
    {
      shows: 'all callers of the policy "login" begin anew, in a script',
      line: "delete --match 'sluice:login:*' --yes",
    },
  ],
  json: { ...SWEEP_FIELDS, deleted: 'keys that were deleted; with --dry-run, that would be' },
  declare: (command) =>
    command
      .addOption(MATCH)
      .addOption(COUNT)
      .addOption(DRY_RUN)
      .addOption(YES)
      .addOption(RESUME)
      .addOption(REDIS)
      .addOption(CONFIG)
      .addOption(ENV),
  run: (context, flags) =>
    runSweep(context, flags, {
      job: deleteKeys,
      countJob: countAll,
      effect: 'remove whatever there is',
      formatQuestion: (keys, database) => `Remove ${keys} of ${database}`,
      formatSummary: ({ seen, changed, gone }, mode) =>
        mode === 'apply'
          ? `${formatNumber(seen)} keys seen: ${formatNumber(changed)} removed, ${formatNumber(gone)} gone before`
          : `${formatNumber(seen)} keys would be removed`,
      toJson: ({ tally }) => ({ deleted: tally.changed }),
    }),
})
