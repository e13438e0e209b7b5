import { Option } from '@commander-js/extra-typings'
import { CommandError } from './command-error.ts'
import { CONFIG, ENV, REDIS } from './settings/options.ts'
import { readSettings } from './settings/settings.ts'
import { type Context, defineCommand } from './subcommand.ts'
import type { Database } from './upkeep/database.ts'
import { countAll, forget as forgetJob } from './upkeep/jobs.ts'
import { openDatabase } from './upkeep/open-database.ts'
import { COUNT, DRY_RUN, MATCH, RESUME } from './upkeep/options.ts'
import { estimate, jobFor, lookAround, number, runSweep, SWEEP_FIELDS, toCommandError } from './upkeep/run-sweep.ts'

const YES = new Option('-y, --yes', 'do not ask; needed for a pattern that names no part of a key, such as *')

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
    if (mode === 'apply' && !yes && namesNothing(match)) {
      throw new CommandError(`--match ${JSON.stringify(match)} names no part of a key`, {
        hint: 'It would remove whatever there is. --yes says that this is meant.',
      })
    }
    const settings = readSettings({ cwd: context.cwd, shell: context.env, config, env, view: 'development' })
    const { database, name } = await openDatabase(settings, context.env, redis)
    try {
      if (mode === 'apply' && !yes && !(await isMeant(context, database, name, match))) return 'interrupted'
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

/** Whether a pattern holds nothing that a key's name must hold. */
function namesNothing(match: string): boolean {
  return match.replace(/\[(?:\\.|[^\]])*\]?|[*?]/g, '') === ''
}

async function isMeant(
  { terminal, signal }: Context,
  database: Database,
  name: string,
  match: string,
): Promise<boolean> {
  const sample = await lookAround(database, match, signal).catch((error: unknown) => {
    throw toCommandError(error)
  })
  const { tally, isComplete, examples } = sample
  const amount = isComplete ? number(tally.seen) : `about ${number(estimate(tally.seen, sample))}`
  const such = examples.length > 0 ? `, such as ${examples.map((each) => JSON.stringify(each)).join(', ')}` : ''
  const answer = await terminal.confirm(`Remove ${amount} keys of ${name}${such}?`, signal)
  if (answer === undefined) {
    throw new CommandError('there is nobody to ask whether this is meant', {
      hint: 'Give --yes, or see with --dry-run.',
    })
  }
  if (!answer) terminal.note('nothing was removed')
  return answer
}
