import { Option } from '@commander-js/extra-typings'
import { readUsage } from '../request/caller/usage-of-rules.ts'
import { configOf, digestNote, knownCaller, rulesOf, storeOf, whyLeftOut } from './caller/ask.ts'
import { ofCaller } from './caller/options.ts'
import { CommandError } from './command-error.ts'
import { connect } from './redis/connection.ts'
import { readInForce } from './rules/in-force.ts'
import { CONFIG, ENV, REDIS } from './settings/options.ts'
import { readSettings } from './settings/settings.ts'
import { defineCommand } from './subcommand.ts'

export const reset = defineCommand({
  name: 'reset',
  summary: 'forget what a caller has used',
  description:
    'Deletes what policies have counted for a caller, as if it had never called. It asks first, and writes to no other keys ' +
    'than the caller’s. Isolates that have just refused the caller go on with that for 5 seconds at most.',
  examples: [
    { shows: 'a caller by its token, in all policies', line: 'reset my-api-token' },
    { shows: 'failed logins of an address, without a question', line: 'reset --ip 203.0.113.7 --policy login --yes' },
  ],
  json: {
    redis: 'host and port that was asked',
    reset: 'whether the keys were deleted; false if the answer to the question was no',
    'keys[].policy': 'name of the policy',
    'keys[].key': 'key in Redis',
    'keys[].used': 'units that its tiers had counted, the most of them',
    'leftOut[].policy': 'name of a policy that was left as it is',
    'leftOut[].why': 'why',
  },
  declare: (command) =>
    ofCaller(command)
      .addOption(
        new Option('-p, --policy <name>', 'only this policy; may be repeated').argParser(
          (name: string, before: readonly string[] = []) => [...before, name],
        ),
      )
      .addOption(new Option('-y, --yes', 'do not ask'))
      .addOption(CONFIG)
      .addOption(ENV)
      .addOption(REDIS),
  async run({ terminal, env, cwd, signal }, options, token) {
    const settings = readSettings({ cwd, shell: env, config: options.config, env: options.env, view: 'development' })
    const caller = await knownCaller(terminal, token, options)
    // Told before a database is asked.
    await rulesOf(configOf(settings), caller)
    const connection = await connect(settings, env, options.redis)
    const note = options.digest === undefined ? digestNote(settings) : undefined
    if (note !== undefined) terminal.note(note)
    try {
      const { config } = await readInForce(connection, settings)
      const { policy: names } = options
      const known = config.policies.map(({ name }) => name)
      const unknown = names?.find((name) => !known.includes(name))
      if (unknown !== undefined) {
        throw new CommandError(`--policy: expected one of ${known.join(', ')}, got ${JSON.stringify(unknown)}`)
      }
      const { rules, leftOut } = await rulesOf(config, caller)
      const isAsked = ({ policy }: { policy: { name: string } }) => names === undefined || names.includes(policy.name)
      const chosen = rules.filter(isAsked)
      const store = storeOf(connection, config)
      const { tiers } = await readUsage(store, chosen)
      const keys = chosen.map(({ policy, rule: { key } }) => {
        const used = Math.max(...tiers.filter((tier) => tier.key === key).map((tier) => tier.used))
        return { policy: policy.name, key, used }
      })
      const isSure = keys.length > 0 && (options.yes || (await isConfirmed()))
      if (isSure) await store.forget(keys.map(({ key }) => key))
      const result = {
        redis: connection.name,
        reset: isSure,
        keys,
        leftOut: leftOut.filter(isAsked).map((left) => ({ policy: left.policy.name, why: whyLeftOut(left) })),
      }
      terminal.show(result, () => {
        const head = isSure ? 'forgotten:' : 'nothing was forgotten.'
        const rows = isSure ? keys.map(({ policy, used, key }) => [policy, used, key]) : []
        return [
          head,
          ...(rows.length > 0 ? [terminal.table(['policy', 'used', 'key'], rows)] : []),
          ...result.leftOut.map(({ policy, why }) => `${policy}: left as it is, ${why}`),
        ].join('\n')
      })
      return 'done'

      async function isConfirmed(): Promise<boolean> {
        for (const { policy, key, used } of keys) terminal.note(`${policy}: ${used} used, ${key}`)
        const answer = await terminal.confirm(
          `Forget ${keys.length === 1 ? 'this' : 'these'} at ${connection.name}?`,
          signal,
        )
        if (answer !== undefined) return answer
        throw new CommandError('there is no terminal to ask', { hint: 'Add --yes to forget them.' })
      }
    } finally {
      await connection.close()
    }
  },
})
