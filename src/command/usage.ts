import { setTimeout as sleep } from 'node:timers/promises'
import { Option } from '@commander-js/extra-typings'
import { DURATION_EXPECTED, parseDuration } from '../limit/tiers.ts'
import type { Blocked, Ordered } from '../limiter/orders.ts'
import type { CallerRule, CallerRules } from '../request/caller/rules-of-caller.ts'
import { readUsage, type TierState } from '../request/caller/usage-of-rules.ts'
import { ordersOfCaller } from '../rules/orders-of-caller.ts'
import { configOf, digestNote, knownCaller, rulesOf, storeOf, whyLeftOut } from './caller/ask.ts'
import { ofCaller } from './caller/options.ts'
import { CommandError } from './command-error.ts'
import { connect } from './redis/connection.ts'
import { readInForce } from './rules/in-force.ts'
import { CONFIG, ENV, REDIS } from './settings/options.ts'
import { readSettings } from './settings/settings.ts'
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
    { shows: 'a token that is in no history, watched', line: 'usage --watch - < token.txt' },
  ],
  json: {
    redis: 'host and port that was asked',
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
    ofCaller(command)
      .addOption(new Option('-w, --watch [interval]', 'ask again, every second or so often, until Ctrl-C'))
      .addOption(CONFIG)
      .addOption(ENV)
      .addOption(REDIS),
  async run({ terminal, env, cwd, signal }, options, token) {
    const everyMs = intervalOf(options.watch)
    const settings = readSettings({ cwd, shell: env, config: options.config, env: options.env, view: 'development' })
    const config = configOf(settings)
    const caller = await knownCaller(terminal, token, options)
    // Told before a database is asked.
    await rulesOf(config, caller)
    const connection = await connect(settings, env, options.redis)
    const note = options.digest === undefined ? digestNote(settings) : undefined
    if (note !== undefined) terminal.note(note)
    try {
      for (;;) {
        const { rules, config } = await readInForce(connection, settings)
        const asked = await rulesOf(config, caller)
        const { blocked, ordered } = await ordersOfCaller(rules, caller, asked.rules, config, Date.now())
        const usage = await readUsage(
          storeOf(connection, config),
          asked.rules.map((each, at) => ({ ...each, rule: ordered[at]?.rule ?? each.rule })),
        )
        const tiers = usage.tiers.map((tier) => withOrders(tier, asked.rules, ordered))
        const result = {
          redis: connection.name,
          nowMs: usage.nowMs,
          blocked: blocked ? blockOf(blocked) : null,
          tiers,
          leftOut: asked.leftOut.map((left) => ({ policy: left.policy.name, why: whyLeftOut(left) })),
        }
        terminal.showAgain(result, () => textOf(result, asked, terminal))
        if (everyMs === undefined) return 'done'
        await sleep(everyMs, undefined, { signal }).catch(() => {})
        if (signal.aborted) return 'done'
      }
    } finally {
      await connection.close()
    }
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

interface OrderedTier extends TierState {
  readonly configuredLimit: number
  readonly unlimited: boolean
}

/** A tier, and what the rules make of it. */
function withOrders(tier: TierState, asked: readonly CallerRule[], ordered: readonly Ordered[]): OrderedTier {
  const at = asked.findIndex(({ rule }) => rule.key === tier.key)
  const before = asked[at]?.rule
  const index = before?.tiers.findIndex(({ windowMs }) => windowMs === tier.windowMs) ?? -1
  const configuredLimit = before?.burst ?? before?.tiers[index]?.limit ?? tier.limit
  const unlimited = ordered[at]?.isUnlimited === true
  return { ...tier, ...(unlimited && { retryAfterMs: 0 }), configuredLimit, unlimited }
}

function blockOf({ status, reason, untilMs }: Blocked) {
  return { status, reason: reason ?? null, until: untilMs === undefined ? null : new Date(untilMs).toISOString() }
}

interface Shown {
  readonly blocked: ReturnType<typeof blockOf> | null
  readonly tiers: readonly OrderedTier[]
}

function textOf({ blocked: block, tiers }: Shown, { leftOut }: CallerRules, terminal: Terminal): string {
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
    ...leftOut.map((left) => `${left.policy.name}: not asked, ${whyLeftOut(left)}`),
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
