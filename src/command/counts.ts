/** `sluice usage` and `sluice reset`: what a caller has used, and how to delete it. */
import { sleep } from '../core/runtime/sleep.ts'
import { listDoubts } from '../gateway/admin/next-request.ts'
import {
  isSpared,
  LEFT_FOR_EVERYONE,
  usage as readUsage,
  reset as resetCounts,
} from '../gateway/admin/operations/usage.ts'
import { formatDuration } from './format.ts'
import { formatSkipped, readCaller } from './operate/operator.ts'
import { declareBody, readBody } from './operate/options.ts'
import { withOperator } from './operate/with-operator.ts'
import { createOption, duration } from './read-option.ts'
import { defineCommand, YES } from './subcommand.ts'
import type { Terminal } from './terminal.ts'

export const usage = defineCommand({
  name: 'usage',
  summary: 'show what a caller has used, without spending',
  description:
    'Shows for a caller what every policy has counted and what it leaves, by the script that decides requests. Nothing is ' +
    'charged or written. Options add up: a token with --ip also asks the policies that count by address.',
  examples: {
    'usage my-api-token': 'a caller by its token',
    'usage --ip 203.0.113.7': 'an anonymous caller',
    'usage --env production --header x-api-key=k-123': 'a caller by a key of its own, in production',
    'usage --digest 4Xb7m1nJ0yKq8rT2vZc5Lw': 'a caller whom a log line names',
    'usage my-api-token --gateway https://edge.example.com': 'without a database, by way of the gateway',
    'usage - --watch < token.txt': 'a token that is in no history, watched',
  },
  declare: (command) =>
    declareBody(command, readUsage, {
      omit: ['policies'],
      own: [createOption('-w, --watch [interval]', 'ask again, every second or so often, until Ctrl-C', duration)],
    }),
  async run(context, options, token) {
    const { terminal, signal } = context
    const everyMs = options.watch === true ? 1_000 : (options.watch as number | undefined)
    const caller = await readCaller(terminal, options, token)
    return withOperator(context, options, 'counts', caller, async (operator) => {
      for (;;) {
        const answer = await operator.run(readUsage, { caller })
        terminal.showAgain({ ...operator.counterpart, ...answer }, () => formatUsage(answer, terminal))
        if (everyMs === undefined) return
        await sleep(everyMs, signal).catch(() => {})
        if (signal.aborted) return
      }
    })
  },
})

export const reset = defineCommand({
  name: 'reset',
  summary: 'reset what a caller has used',
  description:
    'Deletes what policies have counted for a caller, as if it had never called. It asks first, and writes to no other keys ' +
    'than the caller’s. Policies by `global` or `route` alone count for everyone, and are reset only if --policy or ' +
    '--digest names them. Isolates that have just refused the caller go on with that for 5 seconds at most.',
  examples: {
    'reset my-api-token': 'a caller by its token, in all policies',
    'reset --ip 203.0.113.7 --policy login --yes': 'failed logins of an address, without a question',
  },
  declare: (command) => declareBody(command, resetCounts, { own: [YES] }),
  async run(context, options, token) {
    const { terminal } = context
    const caller = await readCaller(terminal, options, token)
    const query = { caller, policies: options.policy as string[] | undefined }
    return withOperator(context, options, 'counts', caller, async (operator) => {
      const counted = await operator.run(readUsage, query)
      const keys = new Map<string, { policy: string; used: number; key: string }>()
      const spared = new Set<string>()
      for (const { policy, key, used, shared } of counted.limits) {
        if (shared && isSpared(policy, query)) spared.add(policy)
        else keys.set(key, { policy, used: Math.max(used, keys.get(key)?.used ?? 0), key })
      }
      if (!options.yes) {
        for (const { policy, key, used } of keys.values()) terminal.note(`${policy}: ${used} used, ${key}`)
      }
      const question = `Reset ${keys.size === 1 ? 'this' : 'these'} at ${operator.name}?`
      const isConfirmed =
        keys.size > 0 && (options.yes === true || (await terminal.confirm(question, 'Add --yes to reset them.')))
      if (isConfirmed) await operator.run(resetCounts, { caller, ...readBody(context, options) })
      const result = {
        ...operator.counterpart,
        reset: isConfirmed,
        keys: [...keys.values()],
        skipped: [
          ...counted.skipped,
          ...[...spared].map((policy) => ({ policy, reason: LEFT_FOR_EVERYONE, needs: null })),
        ],
      }
      terminal.show(result, () => {
        return [
          isConfirmed ? `reset:\n${terminal.formatTable(result.keys)}` : 'nothing was reset.',
          ...formatSkipped(result.skipped),
        ].join('\n')
      })
    })
  },
})

type Usage = Awaited<ReturnType<typeof readUsage.run>>

function formatUsage(usage: Usage, terminal: Terminal): string {
  const { blocked: block, allowed, limits, skipped } = usage
  const withRoute = (name: string, route: string | null) => (route === null ? name : `${name} ${route}`)
  const hasPlans = limits.some(({ plan }) => plan !== null)
  const rows = limits.map(({ name, route, plan, limit, used, remaining, resetMs, retryAfterMs, key }) => ({
    name: withRoute(name, route),
    ...(hasPlans && { plan: plan ?? '' }),
    limit,
    used,
    remaining,
    reset: formatDuration(resetMs),
    retry: formatDuration(retryAfterMs),
    key,
  }))
  const overridden = limits.filter(({ limit, configuredLimit, unlimited }) => unlimited || limit !== configuredLimit)
  const shadowed = [...new Set(limits.flatMap(({ policy, shadow }) => (shadow ? [policy] : [])))]
  const describePlan = ({ plan, assumed }: Usage['limits'][number]) =>
    assumed
      ? 'its plan is not known; --header or --claim names it'
      : `plan ${plan}; another one is named by --header or --claim`
  const plans = new Map(limits.flatMap((row) => (row.plan === null ? [] : [[row.policy, describePlan(row)] as const])))
  const penaltyUntil = new Map(
    limits.flatMap(({ policy, route, penaltyUntilMs }) =>
      penaltyUntilMs === null ? [] : [[withRoute(policy, route), new Date(penaltyUntilMs).toISOString()] as const],
    ),
  )
  return [
    ...(block ? [formatBlock(block, terminal)] : []),
    ...(allowed ? ['allowed: counted, and never refused'] : []),
    ...(rows.length > 0 ? [terminal.formatTable(rows)] : []),
    ...[...plans].map(([policy, plan]) => `${policy}: ${plan}`),
    ...(allowed ? [] : overridden).map(({ name, route, plan, assumed, configuredLimit, unlimited }) => {
      const effect = unlimited ? 'never limited' : `set by a rule; others have ${configuredLimit}`
      return `${withRoute(name, route)}${assumed ? `, if on ${plan}` : ''}: ${effect}`
    }),
    ...shadowed.map((policy) => `${policy}: in shadow mode, refuses nothing`),
    ...[...penaltyUntil].map(([policy, until]) => {
      const penalty = terminal.style('red', `penalty until ${until}`)
      return `${policy}: ${penalty}, whatever remains (sluice reset ends it)`
    }),
    ...listDoubts(usage.active, usage.undecided).map((doubt) => terminal.style('yellow', doubt)),
    ...formatSkipped(skipped),
  ].join('\n')
}

function formatBlock({ status, reason, untilMs, shadow }: NonNullable<Usage['blocked']>, terminal: Terminal): string {
  const until = untilMs === null ? [] : `until ${new Date(untilMs).toISOString()}`
  const words = [`answered ${status}`, until, reason ?? []].flat()
  if (shadow) return `a block would apply, but MODE is shadow: ${words.join(', ')}`
  return `${terminal.style('red', 'blocked')}: ${words.join(', ')} (sluice block --list shows the rule)`
}
