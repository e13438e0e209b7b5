import { CONFIG, defineCommand, ENV, REDIS } from './subcommand.ts'
import { countAll, forget as forgetJob } from './upkeep/database.ts'
import { COUNT, DRY_RUN, MATCH, number, RESUME, runSweep, SWEEP_FIELDS, YES } from './upkeep/run-sweep.ts'

export const forget = defineCommand({
  name: 'forget',
  summary: 'remove keys',
  description:
    'Removes all keys of a database that match a pattern, whoever they belong to, by SCAN and UNLINK in batches. It shows some of them and asks ' +
    'first. It waits while the server is slow or away, and goes on where it was stopped (--resume). Keys of Sluice that are removed are callers ' +
    'who begin anew. To forget one caller, use reset. Redis Cluster is not supported.',
  examples: [
    { shows: 'what would be removed', line: "forget --match 'flashMap_*' --dry-run" },
    { shows: 'do it, once asked', line: "forget --match 'flashMap_*'" },
    {
      shows: 'all callers of the policy "login" begin anew, in a script',
      line: "forget --match 'sluice:login:*' --yes",
    },
  ],
  json: { ...SWEEP_FIELDS, forgotten: 'keys that were removed; with --dry-run, that would be' },
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
      job: forgetJob,
      countJob: countAll,
      would: 'remove whatever there is',
      ask: (keys, database) => `Remove ${keys} of ${database}`,
      tell: ({ seen, changed, gone }, mode) =>
        mode === 'apply'
          ? `${number(seen)} keys seen: ${number(changed)} removed, ${number(gone)} gone before`
          : `${number(seen)} keys would be removed`,
      fields: ({ tally }) => ({ forgotten: tally.changed }),
    }),
})
