import { Option } from '@commander-js/extra-typings'
import { isSpared, LEFT_FOR_EVERYONE, reset as operation } from '../admin/operations/reset.ts'
import { usage } from '../admin/operations/usage.ts'
import { readCaller, whyLeftOut } from './caller/ask.ts'
import { ofCaller } from './caller/options.ts'
import { CommandError, type Exit } from './command-error.ts'
import { asking, withOperator } from './operate/with-operator.ts'
import { AS, WHY } from './rules/lasting.ts'
import { noteOf } from './rules/note-of.ts'
import { defineCommand } from './subcommand.ts'

export const reset = defineCommand({
  name: 'reset',
  summary: 'forget what a caller has used',
  description:
    'Deletes what policies have counted for a caller, as if it had never called. It asks first, and writes to no other keys ' +
    'than the caller’s. Policies by `global` or `route` alone count for everyone, and are forgotten only if --policy or ' +
    '--digest names them. Isolates that have just refused the caller go on with that for 5 seconds at most.',
  examples: [
    { shows: 'a caller by its token, in all policies', line: 'reset my-api-token' },
    { shows: 'failed logins of an address, without a question', line: 'reset --ip 203.0.113.7 --policy login --yes' },
  ],
  json: {
    redis: 'host and port that was asked; with --gateway, `gateway` in place of it: its host',
    reset: 'whether the keys were deleted; false if the answer to the question was no',
    'keys[].policy': 'name of the policy',
    'keys[].key': 'key in Redis',
    'keys[].used': 'units that its tiers had counted, the most of them',
    'leftOut[].policy': 'name of a policy that was left as it is',
    'leftOut[].why': 'why',
  },
  declare: (command) =>
    asking(
      ofCaller(command)
        .addOption(
          new Option('-p, --policy <name>', 'only this policy; may be repeated').argParser(
            (name: string, before: readonly string[] = []) => [...before, name],
          ),
        )
        .addOption(new Option('-y, --yes', 'do not ask'))
        .addOption(AS)
        .addOption(WHY),
    ),
  async run(context, { policy: policies, yes, ...options }, token) {
    const { terminal, signal } = context
    const caller = await readCaller(terminal, token, options)
    const task = { about: 'counts', makesDigests: options.digest === undefined } as const
    return withOperator<Exit>(context, options, task, async (operator) => {
      const body = { caller, policies }
      const asked = await operator.ask(usage, { body })
      const isLeft = ({ isEveryone, policy }: { isEveryone: boolean; policy: string }) =>
        isEveryone && isSpared(policy, body)
      const tiers = asked.tiers.filter((tier) => !isLeft(tier))
      const spared = [...new Set(asked.tiers.filter(isLeft).map(({ policy }) => policy))]
      const leftOut = [...asked.leftOut, ...spared.map((policy) => ({ policy, why: LEFT_FOR_EVERYONE, needs: null }))]
      const keys = [...new Map(tiers.map(({ key, policy }) => [key, policy]))].map(([key, policy]) => {
        const used = Math.max(...tiers.filter((tier) => tier.key === key).map((tier) => tier.used))
        return { policy, key, used }
      })
      const isSure = keys.length > 0 && (yes || (await isConfirmed()))
      if (isSure) await operator.ask(operation, { body: { ...body, ...noteOf(context, options) } })
      const result = {
        ...operator.shown,
        reset: isSure,
        keys,
        leftOut: leftOut.map((left) => ({ policy: left.policy, why: whyLeftOut(left) })),
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
          `Forget ${keys.length === 1 ? 'this' : 'these'} at ${operator.name}?`,
          signal,
        )
        if (answer !== undefined) return answer
        throw new CommandError('there is no terminal to ask', { hint: 'Add --yes to forget them.' })
      }
    })
  },
})
