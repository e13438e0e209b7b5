import { Option } from '@commander-js/extra-typings'
import { override as operation } from '../admin/operations/rules.ts'
import { limitsInWords } from '../rules/document.ts'
import { CommandError } from './command-error.ts'
import { lasting } from './rules/lasting.ts'
import { type Kind, ORDER_FIELDS, runOrder } from './rules/order.ts'
import { ofWhom } from './rules/who.ts'
import { defineCommand } from './subcommand.ts'

const OVERRIDE: Kind<'overrides'> = {
  name: 'override',
  list: 'overrides',
  operation,
  shown: limitsInWords,
  toJson: ({ limits, ...entry }) => ({
    ...entry,
    ...(limits && { limits: Object.entries(limits).map(([policy, limits]) => ({ policy, limits })) }),
  }),
}

/** The policy that RATE_LIMITS makes. */
const DEFAULT_POLICY = 'default'

export const override = defineCommand({
  name: 'override',
  summary: 'give somebody other limits',
  description:
    'Raises or lowers the limits of a caller, or of all whose header or claim is like a value, without a deploy: Workers ' +
    'with RULES = "on" follow within twice RULES_REFRESH_MS. What was used before counts on. It takes the place of an ' +
    'override that the caller has.',
  examples: [
    { shows: 'ten times the limits of all policies, for a day', line: 'override - --times 10 --for 1d < token.txt' },
    { shows: 'other limits of RATE_LIMITS', line: "override --header x-api-key=k-123 --limits '50/1s, 1000/1m'" },
    { shows: 'other limits of a policy', line: "override --ip 203.0.113.7 --limits 'login=20/1m'" },
    { shows: 'no limits for a tenant', line: "override --header 'x-tenant=acme-*' --unlimited" },
    { shows: 'back to those of everybody', line: 'override --ip 203.0.113.7 --remove' },
  ],
  json: {
    ...ORDER_FIELDS,
    'entries[].limits[].policy': 'name of a policy with limits of its own here; missing with times and unlimited',
    'entries[].limits[].limits': 'these limits',
    'entries[].times': 'by what the limits are multiplied',
    'entries[].unlimited': 'true: counted, but never refused',
    'entries[].policies[]': 'policies that it is about; missing: all',
  },
  declare: (command) =>
    lasting(
      ofWhom(command)
        .addOption(
          new Option('-l, --limits <limits>', 'such as login=20/1m, or 50/1s for RATE_LIMITS; repeated').argParser(
            collectLimits,
          ),
        )
        .addOption(new Option('--times <number>', 'a multiple of the limits, such as 10 or 0.5').argParser(readTimes))
        .addOption(new Option('--unlimited', 'count, but never refuse'))
        .addOption(
          new Option('-p, --policy <name>', 'with --times and --unlimited: only this policy; repeated').argParser(
            (name: string, before: readonly string[] = []) => [...before, name],
          ),
        ),
    ),
  run(context, { limits, times, unlimited, policy, ...options }, token) {
    const said = [limits, times, unlimited].filter((part) => part !== undefined).length
    if (!options.remove && !options.list && said !== 1) {
      throw new CommandError('expected one of --limits, --times and --unlimited')
    }
    return runOrder(context, OVERRIDE, token, options, {
      ...(limits && { limits }),
      ...(times !== undefined && { times }),
      ...(unlimited && { unlimited }),
      ...(policy && { policies: policy }),
    })
  },
})

/** `name=limits`, or the limits of RATE_LIMITS. Whether they are limits is looked at with the policies. @throws {CommandError} */
function collectLimits(text: string, before: Readonly<Record<string, string>> = {}): Readonly<Record<string, string>> {
  const [, name = DEFAULT_POLICY, limits = ''] = /^\s*(?:([\w-]{1,64})\s*=)?\s*([^=]+?)\s*$/.exec(text) ?? []
  if (limits === '') throw new CommandError('--limits: expected limits such as 50/1s, or login=20/1m for a policy')
  if (Object.hasOwn(before, name)) throw new CommandError(`--limits: expected limits of ${name} once`)
  return { ...before, [name]: limits }
}

/** @throws {CommandError} */
function readTimes(text: string): number {
  const times = /^\d{1,7}(?:\.\d{1,6})?$/.test(text) ? Number(text) : 0
  if (times > 0) return times
  throw new CommandError(`--times: expected a number above 0, got ${JSON.stringify(text.slice(0, 100))}`)
}
