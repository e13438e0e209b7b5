/** `sluice block`, `allow` and `override`: rules about a caller without a deploy. */
import { Option } from '@commander-js/extra-typings'
import { listDoubts } from '../gateway/admin/next-request.ts'
import type { Operation } from '../gateway/admin/operation.ts'
import * as operations from '../gateway/admin/operations/rules.ts'
import { isOver } from '../gateway/rules/document.ts'
import type { Entries, EntryList } from '../gateway/rules/edit-rules.ts'
import { formatBlock, formatOverride } from '../gateway/rules/format-rules.ts'
import { formatTarget, type RuleTarget } from '../gateway/rules/target.ts'
import { CommandError } from './command-error.ts'
import { readTargetOptions } from './operate/operator.ts'
import { createPolicyOption, type Declaration, declareBody, type OperatorOptions, readBody } from './operate/options.ts'
import { withOperator } from './operate/with-operator.ts'
import { defineCommand, type Subcommand } from './subcommand.ts'

interface Kind<List extends EntryList> extends Omit<Subcommand, 'build'>, Declaration {
  readonly list: List
  readonly operation: Operation<unknown, RuleChange>
  readonly check?: (options: OperatorOptions) => void
  readonly formatEffect: (entry: Entries[List]) => string
}

type RuleChange = Awaited<ReturnType<typeof operations.block.run>>

const LIST = new Option('--list', 'show all that there are, and change nothing')

export const block = defineRuleCommand({
  name: 'block',
  list: 'blocks',
  operation: operations.block,
  formatEffect: formatBlock,
  summary: 'refuse all requests of a caller',
  description:
    'Refuses all requests of a caller, a network, a country or a network operator, without a deploy: Workers with ' +
    'RULES = "on" follow within twice RULES_REFRESH_MS. A token, an address and the like are kept as digests only. An allow ' +
    'goes before a block.',
  examples: {
    'block - --for 1h --reason "too much" < token.txt': 'a token that is in no history, for an hour',
    'block --digest 4Xb7m1nJ0yKq8rT2vZc5Lw': 'a caller whom a log line names',
    'block --cidr 203.0.113.0/24 --until 2026-12-24T00:00:00Z --status 404': 'a network',
    "block --header 'x-tenant=acme-*'": 'all callers of a tenant',
    'block --list': 'all blocks',
    'block --cidr 203.0.113.0/24 --remove': 'remove the block',
  },
})

export const allow = defineRuleCommand({
  name: 'allow',
  list: 'allows',
  operation: operations.allow,
  formatEffect: () => 'never limited',
  summary: 'never limit a caller',
  description:
    'Lets all requests of a caller or a network through, without a deploy: Workers with RULES = "on" follow within twice ' +
    'RULES_REFRESH_MS. They are counted all the same. An allow goes before a block.',
  examples: {
    'allow --cidr 198.51.100.0/28 --for 7d --reason "load test"': 'an office, for a week',
    'allow - < token.txt': 'a token that is in no history',
    'allow --list': 'all allows',
    'allow --cidr 198.51.100.0/28 --remove': 'limit it again',
  },
  omit: ['country', 'asn'],
})

export const override = defineRuleCommand({
  name: 'override',
  list: 'overrides',
  operation: operations.override,
  formatEffect: formatOverride,
  summary: 'give a caller other limits',
  description:
    'Raises or lowers the limits of a caller, or of all whose header or claim matches a value, without a deploy: Workers with ' +
    'RULES = "on" follow within twice RULES_REFRESH_MS. It replaces an earlier override; used units stay.',
  examples: {
    'override - --multiplier 10 --for 1d < token.txt': 'ten times the limits of all policies, for a day',
    "override --header x-api-key=k-123 --limits '50/1s, 1000/1m'": 'other limits of RATE_LIMITS',
    "override --ip 203.0.113.7 --limits 'login=20/1m'": 'other limits of a policy',
    "override --header 'x-tenant=acme-*' --unlimited": 'no limits for a tenant',
    'override --ip 203.0.113.7 --remove': 'back to the limits of all',
  },
  omit: ['cidr', 'country', 'asn', 'policies'],
  own: [createPolicyOption('with --multiplier and --unlimited: only this policy; repeated')],
  check({ limits, multiplier, unlimited, remove, list }) {
    const effects = [limits, multiplier, unlimited].filter((effect) => effect !== undefined)
    if (remove || list || effects.length === 1) return
    throw new CommandError('expected one of --limits, --multiplier and --unlimited')
  },
})

/** A digest of several values, such as a token and a route, does not identify other requests of its caller. */
const COUNTED_NOTE =
  'note: a rule by a digest alone applies only where a policy counts by exactly what the digest was made of'

function defineRuleCommand<List extends EntryList>(kind: Kind<List>): Subcommand {
  const { list, operation, omit, own = [], check, formatEffect, ...about } = kind
  const { name } = about
  return defineCommand({
    ...about,
    declare: (command) => declareBody(command, operation, { omit, own: [...own, LIST] }),
    async run(context, options, token) {
      const { terminal } = context
      check?.(options)
      const target = await readTargetOptions(terminal, options, token)
      if ((target === undefined) !== (options.list === true)) {
        const hint = `sluice help ${name} says how to name them; --list shows all.`
        throw new CommandError(target ? '--list takes no target' : `name the target of the ${name}`, { hint })
      }
      return withOperator(context, options, 'rules', target ?? {}, async (operator) => {
        if (!target) {
          const { version, rules, isolate } = await operator.run(operations.rules)
          const entries = rules[list]
          for (const doubt of listDoubts(isolate)) terminal.note(`note: ${doubt}`)
          const formatAll = () => (entries.length === 0 ? `no ${name}` : formatEntries(entries))
          terminal.show({ ...operator.counterpart, version, [list]: entries }, formatAll)
          return
        }
        const answer = await operator.run(operation, { target, ...readBody(context, options) })
        const { version, changed, target: found, scope, entry } = answer
        const rule = `${name} ${formatTarget(found as RuleTarget)}`
        const unchanged = options.remove ? 'there was no such rule' : 'unchanged'
        const what = changed ? `${options.remove ? 'removed: ' : ''}${rule}` : `${unchanged}: ${rule}`
        if (scope === 'counted' && !options.remove) terminal.note(COUNTED_NOTE)
        terminal.show({ ...operator.counterpart, ...answer }, () => {
          const head = `${what} (version ${version} at ${operator.name})`
          if (!entry) return head
          return `${changed ? `${head}\n` : ''}${formatEntries([entry as Entries[List]])}`
        })
      })

      function formatEntries(entries: readonly Entries[List][]): string {
        const rows = entries.map((entry) => ({
          target: formatTarget(entry),
          [name]: formatEffect(entry),
          until: `${entry.until ?? ''}${isOver(entry, Date.now()) ? ' (ended)' : ''}`,
          reason: entry.reason ?? '',
        }))
        return terminal.formatTable(rows)
      }
    },
  })
}
