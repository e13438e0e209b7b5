/** Subcommands for the usage of callers. */
import { setTimeout as sleep } from 'node:timers/promises'
import { Option } from '@commander-js/extra-typings'
import { isSpared, LEFT_FOR_EVERYONE, usage as readUsage, reset as resetCounts } from '../admin/operations/usage.ts'
import { DURATION_EXPECTED, parseDuration } from '../model/limits.ts'
import { CommandError } from './command-error.ts'
import { explainLeftOut, readCaller } from './operate/operator.ts'
import { declareBody, readBody, YES } from './operate/options.ts'
import { confirm, withOperator } from './operate/with-operator.ts'
import { defineCommand } from './subcommand.ts'
import type { Terminal } from './terminal.ts'

export const usage = defineCommand({
  name: 'usage',
  summary: 'show what a caller has used, without spending',
  description:
    'Shows for a caller what every policy has counted and what it leaves, by the script that decides requests. Nothing is ' +
    'charged or written. Options add up: a token with --ip also asks the policies that count by address.',
  examples: [
    { shows: 'a caller by its token', line: 'usage my-api-token' },
    { shows: 'an anonymous caller', line: 'usage --ip 203.0.113.7' },
    { shows: 'a caller by a key of its own, in production', line: 'usage --env production --header x-api-key=k-123' },
    { shows: 'a caller whom a log line names', line: 'usage --digest 4Xb7m1nJ0yKq8rT2vZc5Lw' },
    {
      shows: 'without a database, by way of the gateway',
      line: 'usage my-api-token --gateway https://edge.example.com',
    },
    { shows: 'a token that is in no history, watched', line: 'usage --watch - < token.txt' },
  ],
  json: {
    redis: 'host and port that was asked; with --gateway, `gateway` in place of it: its host',
    nowMs: 'Redis’s clock, in milliseconds since the Unix epoch',
    blocked: 'the block of the rules that keeps the caller out; null: none is known',
    'blocked.status': 'status of its responses',
    'blocked.reason': 'why, as the caller is told; null if that is not said',
    'blocked.until': 'when it ends, in RFC 3339; null: never',
    'tiers[].policy': 'name of the policy',
    'tiers[].tier': 'name of the tier, as in response fields',
    'tiers[].route': 'the pattern that it is about, where a policy counts by route; null elsewhere',
    'tiers[].key': 'key in Redis',
    'tiers[].limit': 'units admitted in the window; what a bucket holds; slots: as the rules have it for this caller',
    'tiers[].configuredLimit': 'the same, as the policy has it for all',
    'tiers[].unlimited': 'true if the rules never limit the caller by it',
    'tiers[].everyone': 'true if it is counted for all callers together: a reset of this one leaves it as it is',
    'tiers[].windowMs': 'length of the window in milliseconds',
    'tiers[].used': 'units used',
    'tiers[].left': 'units left',
    'tiers[].resetMs': 'milliseconds until more than that is left; 0 if all is',
    'tiers[].retryAfterMs': 'milliseconds until a request is admitted; 0 if it is now',
    'tiers[].blockedUntilMs':
      'until when the policy refuses the caller, whatever is left, in milliseconds since the Unix epoch; null if it does not',
    'leftOut[].policy': 'name of a policy that was not asked',
    'leftOut[].why': 'why not',
  },
  declare: (command) =>
    declareBody(command, readUsage, {
      omit: ['policies'],
      own: [
        new Option('-w, --watch [interval]', 'ask again, every second or so often, until Ctrl-C').argParser(
          readInterval,
        ),
      ],
    }),
  async run(context, options, token) {
    const { terminal, signal } = context
    const everyMs = options.watch === true ? 1_000 : (options.watch as number | undefined)
    const caller = await readCaller(terminal, options, token)
    return withOperator(context, options, 'counts', caller, async (operator) => {
      for (;;) {
        const answer = await operator.run(readUsage, { body: { caller } })
        const result = { ...operator.place, ...toJson(answer) }
        terminal.showAgain(result, () => formatUsage(result, terminal))
        if (everyMs === undefined) return
        await sleep(everyMs, undefined, { signal }).catch(() => {})
        if (signal.aborted) return
      }
    })
  },
})

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
  declare: (command) => declareBody(command, resetCounts, { own: [YES] }),
  async run(context, options, token) {
    const { terminal } = context
    const caller = await readCaller(terminal, options, token)
    const body = { caller, policies: options.policy as string[] | undefined }
    return withOperator(context, options, 'counts', caller, async (operator) => {
      const counted = await operator.run(readUsage, { body })
      const keys = new Map<string, { readonly policy: string; readonly key: string; readonly used: number }>()
      const spared = new Set<string>()
      for (const { policy, key, used, isEveryone } of counted.tiers) {
        if (isEveryone && isSpared(policy, body)) spared.add(policy)
        else keys.set(key, { policy, key, used: Math.max(used, keys.get(key)?.used ?? 0) })
      }
      if (!options.yes) {
        for (const { policy, key, used } of keys.values()) terminal.note(`${policy}: ${used} used, ${key}`)
      }
      const question = `Forget ${keys.size === 1 ? 'this' : 'these'} at ${operator.name}?`
      const isConfirmed =
        keys.size > 0 && (options.yes === true || (await confirm(context, question, 'Add --yes to forget them.')))
      if (isConfirmed) await operator.run(resetCounts, { body: { caller, ...readBody(context, options) } })
      const result = {
        ...operator.place,
        reset: isConfirmed,
        keys: [...keys.values()],
        leftOut: [
          ...explainLeftOut(counted.leftOut),
          ...[...spared].map((policy) => ({ policy, why: LEFT_FOR_EVERYONE })),
        ],
      }
      terminal.show(result, () => {
        const rows = result.keys.map(({ policy, used, key }) => [policy, used, key])
        return [
          isConfirmed ? `forgotten:\n${terminal.table(['policy', 'used', 'key'], rows)}` : 'nothing was forgotten.',
          ...result.leftOut.map(({ policy, why }) => `${policy}: left as it is, ${why}`),
        ].join('\n')
      })
    })
  },
})

function readInterval(text: string): number {
  const intervalMs = parseDuration(text)
  if (intervalMs !== undefined) return intervalMs
  throw new CommandError(`--watch: expected ${DURATION_EXPECTED}, got ${JSON.stringify(text)}`)
}

type Answer = Awaited<ReturnType<typeof readUsage.run>>
type Usage = ReturnType<typeof toJson>

function toJson({ nowMs, blocked, tiers, leftOut }: Answer) {
  const { untilMs = null } = blocked ?? {}
  const until = untilMs === null ? null : new Date(untilMs).toISOString()
  return {
    nowMs,
    blocked: blocked && { status: blocked.status, reason: blocked.reason, until },
    tiers: tiers.map(({ isUnlimited: unlimited, isEveryone: everyone, ...tier }) => ({ ...tier, unlimited, everyone })),
    leftOut: explainLeftOut(leftOut),
  }
}

function formatUsage({ blocked: block, tiers, leftOut }: Usage, terminal: Terminal): string {
  const withRoute = (name: string, route: string | null) => (route === null ? name : `${name} ${route}`)
  const rows = tiers.map(({ tier, route, limit, used, left, resetMs, retryAfterMs, key }) => [
    withRoute(tier, route),
    limit,
    used,
    left === 0 ? terminal.style('red', '0') : left,
    formatSeconds(resetMs),
    formatSeconds(retryAfterMs),
    key,
  ])
  const overridden = tiers.filter(({ limit, configuredLimit, unlimited }) => unlimited || limit !== configuredLimit)
  const blockedUntil = new Map(
    tiers.flatMap(({ policy, route, blockedUntilMs }) =>
      blockedUntilMs === null ? [] : [[withRoute(policy, route), new Date(blockedUntilMs).toISOString()] as const],
    ),
  )
  return [
    ...(block ? [formatBlock(block, terminal)] : []),
    ...(rows.length > 0 ? [terminal.table(['tier', 'limit', 'used', 'left', 'reset', 'retry', 'key'], rows)] : []),
    ...overridden.map(({ tier, route, configuredLimit, unlimited }) => {
      const limit = unlimited ? 'never limited' : `${configuredLimit} for others`
      return `${withRoute(tier, route)}: ${limit}, by the rules`
    }),
    ...[...blockedUntil].map(([policy, until]) => {
      const blocked = terminal.style('red', `blocked until ${until}`)
      return `${policy}: ${blocked}, whatever is left (sluice reset lifts it)`
    }),
    ...leftOut.map(({ policy, why }) => `${policy}: not asked, ${why}`),
  ].join('\n')
}

function formatSeconds(ms: number): string {
  return ms === 0 ? '–' : `${(ms / 1000).toFixed(ms < 60_000 ? 3 : 0)}s`
}

function formatBlock({ status, reason, until }: NonNullable<Usage['blocked']>, terminal: Terminal): string {
  const words = [`answered ${status}`, until === null ? [] : `until ${until}`, reason ?? []].flat()
  return `${terminal.style('red', 'blocked')}: ${words.join(', ')} (sluice block --remove lifts it)`
}
