import { InvalidArgumentError, Option } from '@commander-js/extra-typings'
import { DURATION_EXPECTED, formatWindow, parseDuration } from '../model/limits.ts'
import { CONFIG, defineCommand, ENV, REDIS } from './subcommand.ts'
import { countBare, expire as expireJob } from './upkeep/database.ts'
import { COUNT, DRY_RUN, estimate, MATCH, number, RESUME, runSweep, SWEEP_FIELDS, YES } from './upkeep/run-sweep.ts'

const TTL = new Option('-t, --ttl <duration>', 'time to live of those keys that have none: 500ms 60s 5m 24h 7d 1w')
  .argParser((text) => {
    const ms = parseDuration(text)
    if (ms === undefined) throw new InvalidArgumentError(`Expected ${DURATION_EXPECTED}.`)
    return ms
  })
  .makeOptionMandatory()
const SAMPLE = new Option('--sample', 'the same for some 10,000 keys, with an estimate of the whole')

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
      would: 'give whatever there is a time to live',
      ask: (keys, database) => `Give ${lifetime} to ${keys} of ${database}`,
      tell({ seen, changed, kept, gone }, mode) {
        const what = mode === 'apply' ? `given ${lifetime}` : `have none, and would be given ${lifetime}`
        return `${number(seen)} keys seen: ${number(changed)} ${what}, ${number(kept)} had a time to live, ${number(gone)} gone`
      },
      fields: (summary, mode) => ({
        ttlMs: ttl,
        set: summary.tally.changed,
        had: summary.tally.kept,
        settable: mode === 'sample' ? estimate(summary.tally.changed, summary) : null,
      }),
    })
  },
})
