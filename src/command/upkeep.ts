/** `sluice expire` and `sluice delete`: upkeep of many keys, in small batches. */
import { Option } from '@commander-js/extra-typings'
import { formatWindow } from '../core/model/limits.ts'
import { formatNumber } from './format.ts'
import { createOption, duration } from './read-option.ts'
import { defineCommand } from './subcommand.ts'
import { countAll, countBare, deleteKeys, expire as expireJob } from './upkeep/database.ts'
import { declareSweep, runSweep } from './upkeep/run-sweep.ts'

const TTL = createOption('-t, --ttl <duration>', 'time to live, such as 500ms 60s 5m 24h 7d 1w', duration)

export const expire = defineCommand({
  name: 'expire',
  summary: 'give keys without a time to live one',
  description:
    'Gives a time to live to all keys of a database that match a pattern and have none, also keys of other programs. The rules ' +
    'and audit logs of Sluice stay without one. It shows some of the keys and asks first. It searches by SCAN, never by KEYS, ' +
    'in scripts that are made to take half a millisecond each, waits while the server is unavailable, and goes on where it ' +
    'was stopped (--resume). Keys that are made during the run may be missed, so first stop what makes them. Redis Cluster ' +
    'is not supported.',
  examples: {
    "expire --match 'flashMap_*' --ttl 60s --sample": 'how many keys there are, and how long it would take',
    "expire --match 'flashMap_*' --ttl 60s --dry-run": 'what would be changed',
    "expire --match 'flashMap_*' --ttl 60s": 'do it, once asked',
    "expire --match 'flashMap_*' --ttl 60s --resume": 'go on after Ctrl-C, a crash or a lost connection',
    "expire --redis redis://10.0.0.5:6379/2 --match 'session:*' --ttl 24h --yes": 'in another database, in a script',
  },
  declare: (command) =>
    declareSweep(command)
      .addOption(TTL.makeOptionMandatory())
      .addOption(new Option('--sample', 'as --dry-run for some 10,000 keys, with an estimate of the whole')),
  run: (context, { ttl, ...flags }) => {
    const lifetime = formatWindow(ttl)
    return runSweep(context, flags, {
      job: expireJob(ttl),
      countJob: countBare,
      question: `Give ${lifetime} to`,
      formatSummary({ seen, changed, kept, gone }, isDryRun) {
        const what = isDryRun ? `have none, and would be given ${lifetime}` : `given ${lifetime}`
        return `${formatNumber(seen)} keys seen: ${formatNumber(changed)} ${what}, ${formatNumber(kept)} had a time to live, ${formatNumber(gone)} gone`
      },
      toJson: ({ changed, kept }, total) => ({ ttlMs: ttl, set: changed, had: kept, settable: total }),
    })
  },
})

export const deleteCommand = defineCommand({
  name: 'delete',
  summary: 'remove keys',
  description:
    'Removes all keys of a database that match a pattern, also keys of other programs, by SCAN and UNLINK in batches. It shows some ' +
    'of them and asks first, waits while the server is unavailable, and goes on where it was stopped (--resume). It resets ' +
    'callers whose keys it removes; for one caller, use reset. Rules and audit logs that match go as well. Redis Cluster is ' +
    'not supported.',
  examples: {
    "delete --match 'flashMap_*' --dry-run": 'what would be removed',
    "delete --match 'flashMap_*'": 'do it, once asked',
    "delete --match 'sluice:login:*' --yes": 'reset all callers of the policy "login", in a script',
  },
  declare: declareSweep,
  run: (context, flags) =>
    runSweep(context, flags, {
      job: deleteKeys,
      countJob: countAll,
      question: 'Remove',
      formatSummary: ({ seen, changed, gone }, isDryRun) =>
        isDryRun
          ? `${formatNumber(changed)} keys would be removed`
          : `${formatNumber(seen)} keys seen: ${formatNumber(changed)} removed, ${formatNumber(gone)} gone before`,
      toJson: ({ changed }) => ({ deleted: changed }),
    }),
})
