import { setTimeout as sleep } from 'node:timers/promises'
import { Option } from '@commander-js/extra-typings'
import { usage as operation } from '../admin/operations/usage.ts'
import { DURATION_EXPECTED, parseDuration } from '../model/limits.ts'
import { readCaller, whyLeftOut } from './caller/ask.ts'
import { ofCaller } from './caller/options.ts'
import { CommandError, type Exit } from './command-error.ts'
import { asking, withOperator } from './operate/with-operator.ts'
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
    asking(
      ofCaller(command).addOption(
        new Option('-w, --watch [interval]', 'ask again, every second or so often, until Ctrl-C'),
      ),
    ),
  async run(context, options, token) {
    const { terminal, signal } = context
    const everyMs = intervalOf(options.watch)
    const caller = await readCaller(terminal, token, options)
    const task = { about: 'counts', makesDigests: options.digest === undefined } as const
    return withOperator<Exit>(context, options, task, async (operator) => {
      for (;;) {
        const answer = await operator.ask(operation, { body: { caller } })
        const result = { ...operator.shown, ...shownOf(answer) }
        terminal.showAgain(result, () => textOf(result, terminal))
        if (everyMs === undefined) return 'done'
        await sleep(everyMs, undefined, { signal }).catch(() => {})
        if (signal.aborted) return 'done'
      }
    })
  },
})

/** @returns undefined if it is asked once. @throws {CommandError} */
function intervalOf(watch: string | true | undefined): number | undefined {
  if (watch === undefined) return undefined
  return (
    parseDuration(watch === true ? '1s' : watch) ??
    (() => {
      throw new CommandError(`--watch: expected ${DURATION_EXPECTED}, got ${JSON.stringify(watch)}`)
    })()
  )
}

type Answer = Awaited<ReturnType<typeof operation.run>>
type Shown = ReturnType<typeof shownOf>

/** As `--json` prints it. */
function shownOf({ nowMs, blocked, tiers, leftOut }: Answer) {
  const until = blocked?.untilMs ?? null
  return {
    nowMs,
    blocked: blocked && {
      ...{ status: blocked.status, reason: blocked.reason },
      until: until === null ? null : new Date(until).toISOString(),
    },
    tiers: tiers.map(({ isUnlimited: unlimited, isEveryone: everyone, ...tier }) => ({ ...tier, unlimited, everyone })),
    leftOut: leftOut.map((left) => ({ policy: left.policy, why: whyLeftOut(left) })),
  }
}

function textOf({ blocked: block, tiers, leftOut }: Shown, terminal: Terminal): string {
  const rows = tiers.map(({ tier, route, limit, used, left, resetMs, retryAfterMs, key }) => [
    route === null ? tier : `${tier} ${route}`,
    limit,
    used,
    left === 0 ? terminal.style('red', '0') : left,
    seconds(resetMs),
    seconds(retryAfterMs),
    key,
  ])
  const table = terminal.table(['tier', 'limit', 'used', 'left', 'reset', 'retry', 'key'], rows)
  const blocked = new Map(
    tiers.flatMap(({ policy, route, blockedUntilMs }) =>
      blockedUntilMs === null ? [] : [[route === null ? policy : `${policy} ${route}`, blockedUntilMs] as const],
    ),
  )
  const ruled = tiers.filter(({ limit, configuredLimit, unlimited }) => unlimited || limit !== configuredLimit)
  return [
    ...(block ? [blockLine(block, terminal)] : []),
    ...(rows.length > 0 ? [table] : []),
    ...ruled.map(({ tier, route, configuredLimit, unlimited }) => {
      const name = route === null ? tier : `${tier} ${route}`
      return `${name}: ${unlimited ? 'never limited' : `${configuredLimit} for others`}, by the rules`
    }),
    ...[...blocked].map(([policy, untilMs]) => {
      const until = terminal.style('red', `blocked until ${new Date(untilMs).toISOString()}`)
      return `${policy}: ${until}, whatever is left (sluice reset lifts it)`
    }),
    ...leftOut.map(({ policy, why }) => `${policy}: not asked, ${why}`),
  ].join('\n')
}

function seconds(ms: number): string {
  return ms === 0 ? '–' : `${(ms / 1000).toFixed(ms < 60_000 ? 3 : 0)}s`
}

function blockLine({ status, reason, until }: NonNullable<Shown['blocked']>, terminal: Terminal): string {
  const words = [
    `answered ${status}`,
    ...(until === null ? [] : [`until ${until}`]),
    ...(reason === null ? [] : [reason]),
  ]
  return `${terminal.style('red', 'blocked')}: ${words.join(', ')} (sluice block --remove lifts it)`
}
