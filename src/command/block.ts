import { Option } from '@commander-js/extra-typings'
import { block as operation } from '../admin/operations/rules.ts'
import { blockInWords } from '../rules/document.ts'
import { CommandError } from './command-error.ts'
import { lasting } from './rules/lasting.ts'
import { type Kind, ORDER_FIELDS, runOrder } from './rules/order.ts'
import { ofWhomOrPlace } from './rules/who.ts'
import { defineCommand } from './subcommand.ts'

const BLOCK: Kind<'blocks'> = {
  name: 'block',
  list: 'blocks',
  operation,
  shown: blockInWords,
  toJson: (entry) => entry,
}

export const block = defineCommand({
  name: 'block',
  summary: 'let somebody in no more',
  description:
    'Refuses all requests of a caller, a network, a country or a network operator, without a deploy: Workers with ' +
    'RULES = "on" follow within twice RULES_REFRESH_MS. A token, an address and the like are kept as digests only. An allow ' +
    'goes before a block.',
  examples: [
    { shows: 'a token that is in no history, for an hour', line: 'block - --for 1h --reason "too much" < token.txt' },
    { shows: 'a caller whom a log line names', line: 'block --digest 4Xb7m1nJ0yKq8rT2vZc5Lw' },
    { shows: 'a network', line: 'block --cidr 203.0.113.0/24 --until 2026-12-24T00:00:00Z --status 404' },
    { shows: 'all callers of a tenant', line: "block --header 'x-tenant=acme-*'" },
    { shows: 'whom else there is', line: 'block --list' },
    { shows: 'let it in again', line: 'block --cidr 203.0.113.0/24 --remove' },
  ],
  json: {
    ...ORDER_FIELDS,
    'entries[].country': 'in place of a caller: a country',
    'entries[].asn': 'in place of a caller: the number of a network operator',
    'entries[].status': 'of the responses; missing: 403',
  },
  declare: (command) =>
    lasting(
      ofWhomOrPlace(command).addOption(
        new Option('--status <code>', 'of the responses, 400 to 599 (default: 403)').argParser(readStatus),
      ),
    ),
  run: (context, { status, ...options }, token) =>
    runOrder(context, BLOCK, token, options, status === undefined ? {} : { status }),
})

/** @throws {CommandError} */
function readStatus(text: string): number {
  if (/^\d{3}$/.test(text)) return Number(text)
  throw new CommandError(`--status: expected a status from 400 to 599, got ${JSON.stringify(text.slice(0, 100))}`)
}
