import { allow as operation } from '../admin/operations/rules.ts'
import { lasting } from './rules/lasting.ts'
import { type Kind, ORDER_FIELDS, runOrder } from './rules/order.ts'
import { ofWhomOrNetwork } from './rules/who.ts'
import { defineCommand } from './subcommand.ts'

const ALLOW: Kind<'allows'> = {
  name: 'allow',
  list: 'allows',
  operation,
  shown: () => 'never limited',
  toJson: (entry) => entry,
}

export const allow = defineCommand({
  name: 'allow',
  summary: 'never limit somebody',
  description:
    'Lets all requests of a caller or a network through, without a deploy: Workers with RULES = "on" follow within twice ' +
    'RULES_REFRESH_MS. They are counted all the same. An allow goes before a block.',
  examples: [
    { shows: 'an office, for a week', line: 'allow --cidr 198.51.100.0/28 --for 7d --reason "load test"' },
    { shows: 'a token that is in no history', line: 'allow - < token.txt' },
    { shows: 'whom else there is', line: 'allow --list' },
    { shows: 'limit it again', line: 'allow --cidr 198.51.100.0/28 --remove' },
  ],
  json: ORDER_FIELDS,
  declare: (command) => lasting(ofWhomOrNetwork(command)),
  run: (context, options, token) => runOrder(context, ALLOW, token, options, {}),
})
