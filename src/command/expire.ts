import { Option } from '@commander-js/extra-typings'
import { formatWindow } from '../model/limits.ts'
import { readSettings } from './settings/settings.ts'
import { CONFIG, defineCommand, ENV, REDIS } from './subcommand.ts'
import { isMeant, refuseEverything } from './upkeep/confirm.ts'
import { countBare, expire as expireJob } from './upkeep/jobs.ts'
import { openDatabase } from './upkeep/open-database.ts'
import { COUNT, DRY_RUN, MATCH, parseTtl, RESUME, SAMPLE, YES } from './upkeep/options.ts'
import { jobFor, number, runSweep, SWEEP_FIELDS } from './upkeep/run-sweep.ts'

const TTL = new Option('-t, --ttl <duration>', 'time to live of those keys that have none: 500ms 60s 5m 24h 7d 1w')
  .argParser(parseTtl)
  .makeOptionMandatory()

/** `sluice expire` */
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
  async run(context, { match, ttl, count, dryRun, sample, yes, resume, redis, config, env }) {
    const mode = sample ? 'sample' : dryRun ? 'dry-run' : 'apply'
    const asks = mode === 'apply' && !yes
    if (asks) refuseEverything(match, 'give whatever there is a time to live')
    const settings = readSettings({ cwd: context.cwd, shell: context.env, config, env, view: 'development' })
    const { database, name } = await openDatabase(settings, context.env, redis)
    const lifetime = formatWindow(ttl)
    try {
      const question = {
        database,
        match,
        job: countBare,
        ask: (keys: string) => `Give ${lifetime} to ${keys} of ${name}`,
      }
      if (asks && !(await isMeant(context, question))) return 'interrupted'
      return await runSweep(context, {
        ...{ database, databaseName: name, match, count, mode },
        job: jobFor(expireJob(ttl), mode),
        resumes: resume === true,
        tell({ tally: { seen, changed, kept, gone } }) {
          const what = mode === 'apply' ? `given ${lifetime}` : `have none, and would be given ${lifetime}`
          return `${number(seen)} keys seen: ${number(changed)} ${what}, ${number(kept)} had a time to live, ${number(gone)} gone`
        },
        fields: ({ tally: { changed, kept }, share }) => ({
          ttlMs: ttl,
          set: changed,
          had: kept,
          settable: mode === 'sample' ? Math.round(changed / Math.max(share, Number.EPSILON)) : null,
        }),
      })
    } finally {
      await database.close()
    }
  },
})
