import { readSettings } from './settings/settings.ts'
import { CONFIG, defineCommand, ENV, REDIS } from './subcommand.ts'
import { isMeant, refuseEverything } from './upkeep/confirm.ts'
import { countAll, forget as forgetJob } from './upkeep/jobs.ts'
import { openDatabase } from './upkeep/open-database.ts'
import { COUNT, DRY_RUN, MATCH, RESUME, YES } from './upkeep/options.ts'
import { jobFor, number, runSweep, SWEEP_FIELDS } from './upkeep/run-sweep.ts'

/** `sluice forget` */
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
  async run(context, { match, count, dryRun, yes, resume, redis, config, env }) {
    const mode = dryRun ? 'dry-run' : 'apply'
    const asks = mode === 'apply' && !yes
    if (asks) refuseEverything(match, 'remove whatever there is')
    const settings = readSettings({ cwd: context.cwd, shell: context.env, config, env, view: 'development' })
    const { database, name } = await openDatabase(settings, context.env, redis)
    try {
      const question = { database, match, job: countAll, ask: (keys: string) => `Remove ${keys} of ${name}` }
      if (asks && !(await isMeant(context, question))) return 'interrupted'
      return await runSweep(context, {
        ...{ database, databaseName: name, match, count, mode },
        job: jobFor(forgetJob, mode, countAll),
        resumes: resume === true,
        tell: ({ tally: { seen, changed, gone } }) =>
          mode === 'apply'
            ? `${number(seen)} keys seen: ${number(changed)} removed, ${number(gone)} gone before`
            : `${number(seen)} keys would be removed`,
        fields: ({ tally: { changed } }) => ({ forgotten: changed }),
      })
    } finally {
      await database.close()
    }
  },
})
