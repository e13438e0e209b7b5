/** `sluice top`: the busiest callers, as they are now. */
import { sleep } from '../core/runtime/sleep.ts'
import { describeActive } from '../gateway/admin/change-rules.ts'
import { listDoubts } from '../gateway/admin/next-request.ts'
import { readActiveRules } from '../gateway/rules/active-rules.ts'
import { createRulesReader } from '../gateway/rules/rule-effects.ts'
import { integer } from '../http/config/values.ts'
import { formatDuration, formatNumber, formatPercent } from './format.ts'
import { openGateway } from './operate/over-database.ts'
import { createOption, duration } from './read-option.ts'
import { type Connection, connect, PATIENT_SILENCE_MS } from './redis/connection.ts'
import { openDatabase } from './redis/open-database.ts'
import { readSettings } from './settings/settings.ts'
import { CONFIG, defineCommand, ENV, REDIS } from './subcommand.ts'
import type { Terminal } from './terminal.ts'
import { type Findings, type KeyRow, KeyWatch, OwnKeys } from './top/key-watch.ts'
import { countKeys, readInfo } from './upkeep/database.ts'
import { loadWorkerConfig, toEnvironment } from './worker-config.ts'

const EVERY_MS = 2_000
/** Upstash charges for each command. */
const EVERY_MS_OVER_REST = 10_000
const PINGS = 5

export const top = defineCommand({
  name: 'top',
  summary: 'watch the busiest callers, those at their limits, and the database',
  description:
    'Shows the busiest keys of Sluice, those at their limits, and the state of the database. It never uses MONITOR or KEYS: ' +
    'each look reads some more keys by SCAN, and the listed ones again, and charges nothing; so the lists get better with ' +
    'every look. "at limit" says in how many looks the caller would have been refused, as refusals leave no trace in Redis; ' +
    'where limits go by plan, by those of the largest one, as keys do not tell the plan. With RULES = "on", policies that ' +
    'were pushed and rules that name a caller count, and a line says which rules keys do not tell. ' +
    'Over REST, Upstash charges for two or three commands for each key that is read.',
  examples: {
    top: 'watch',
    'top --json --iterations 1 --sample 1000': 'one look as JSON, for a script',
    'top --env production --interval 1m': 'in production, seldom',
  },
  declare: (command) =>
    command
      .addOption(createOption('-i, --interval <duration>', 'time between looks (default: 2s; over REST 10s)', duration))
      .addOption(createOption('-n, --iterations <count>', 'default: 1, on a terminal without end', integer(1, 1e9)))
      .addOption(createOption('--sample <keys>', 'new keys that each look reads', integer(1, 1_000)).default(200))
      .addOption(createOption('--rows <count>', 'rows of each list', integer(1, 100)).default(10))
      .addOption(REDIS)
      .addOption(CONFIG)
      .addOption(ENV),
  async run({ terminal, env, cwd, signal }, options) {
    const settings = readSettings({ cwd, shell: env, config: options.config, env: options.env, view: 'development' })
    const config = loadWorkerConfig(settings)
    const connections = await connect(settings, env, options.redis, { silenceMs: PATIENT_SILENCE_MS })
    try {
      const isOverRest = connections.some(({ kind }) => kind === 'rest')
      const intervalMs = options.interval ?? (isOverRest ? EVERY_MS_OVER_REST : EVERY_MS)
      const looks = options.iterations ?? (terminal.isLive ? Number.POSITIVE_INFINITY : 1)
      const { gateway } = await openGateway(connections, { ...toEnvironment(settings), STATISTICS: 'off' })
      const watches = connections.map((connection) => {
        const { sample, rows } = options
        const store = openDatabase(connection, config).limits
        return { connection, watch: new KeyWatch({ connection, store, sample, rows }) }
      })
      for (let look = 1; !signal.aborted; look++) {
        const active = await readActiveRules(gateway.rulesEngine, config)
        const { rules, policies } = active
        const applyRules = createRulesReader(rules, config, Date.now)
        const keys = { ownKeys: new OwnKeys({ ...config, policies }), rules, applyRules }
        const found = await Promise.all(
          watches.map(async ({ connection, watch }) => {
            const server = await readServerState(connection)
            const findings = await watch.look(keys)
            return { redis: connection.name, atMs: Date.now(), rules: describeActive(active), server, ...findings }
          }),
        )
        const [only = {}, ...others] = found
        terminal.showAgain(others.length === 0 ? only : { databases: found }, () =>
          found.map((each) => formatLook(each.redis, each.server, each, terminal)).join('\n\n'),
        )
        if (look >= looks) break
        await sleep(intervalMs, signal).catch(() => {})
      }
      return 'done'
    } finally {
      await Promise.all(connections.map((connection) => connection.close()))
    }
  },
})

/** @throws {StoreError} */
async function readServerState(connection: Connection) {
  const tookMs: number[] = []
  for (let i = 0; i < PINGS; i++) {
    const sentAtMs = performance.now()
    await connection.send(['PING'])
    tookMs.push(performance.now() - sentAtMs)
  }
  tookMs.sort((a, b) => a - b)
  const [keys, memory] = await Promise.all([countKeys(connection), readInfo(connection, 'memory')])
  const round = (ms = 0) => Math.round(ms * 100) / 100
  return {
    keys,
    latencyMs: round(tookMs[PINGS >> 1]),
    slowestMs: round(tookMs.at(-1)),
    memoryBytes: Number(memory.get('used_memory')) || null,
    memoryLimitBytes: Number(memory.get('maxmemory')) || null,
    memoryPolicy: memory.get('maxmemory_policy') ?? null,
  }
}

type ServerState = Awaited<ReturnType<typeof readServerState>>

interface ShownFindings extends Findings {
  readonly rules: ReturnType<typeof describeActive>
}

function listUndecidedOf({ busiest, atLimit }: Findings): readonly string[] {
  return [...new Set([...busiest, ...atLimit].flatMap(({ undecided }) => undecided))]
}

function formatLook(name: string, server: ServerState, findings: ShownFindings, terminal: Terminal): string {
  const { keys, latencyMs, slowestMs, memoryBytes, memoryLimitBytes, memoryPolicy } = server
  const limit =
    memoryLimitBytes === null ? 'no limit' : `limit ${formatMebibytes(memoryLimitBytes)}, then ${memoryPolicy}`
  const memory = memoryBytes === null ? '' : `, memory ${formatMebibytes(memoryBytes)} (${limit})`
  const ttlNote = `${formatNumber(findings.withoutTtl)} without a time to live`
  const about = findings.passes === 0 ? 'about ' : ''
  const unknown = findings.unknown === 0 ? '' : `, ${formatNumber(findings.unknown)} of no policy that is configured`
  return [
    `${name}: PING ${latencyMs} ms, slowest ${slowestMs} ms; ${formatNumber(keys)} keys${memory}`,
    `keys of Sluice: ${about}${formatNumber(findings.keys)}, ${findings.withoutTtl === 0 ? ttlNote : terminal.style('red', ttlNote)}${unknown}; pass ${findings.passes + (findings.share < 1 ? 1 : 0)} at ${formatPercent(findings.share)}`,
    '',
    ...formatList('Busiest', findings.busiest, terminal),
    '',
    ...formatList('At their limits', findings.atLimit, terminal),
    ...listDoubts(findings.rules, listUndecidedOf(findings)).map((doubt) => terminal.style('yellow', doubt)),
  ].join('\n')
}

function formatList(title: string, rows: readonly KeyRow[], terminal: Terminal): string[] {
  if (rows.length === 0) return [`${title}: none seen so far`]
  const hasEffects = rows.some(({ effect }) => effect !== null)
  const cells = rows.map(({ unitsPerS, looks, looksAtLimit, ...row }) => ({
    policy: row.policy,
    caller: row.digest,
    ...(hasEffects && { rule: row.effect ?? '' }),
    'units/s': unitsPerS === null ? '–' : unitsPerS.toFixed(unitsPerS < 10 ? 2 : 0),
    'fullest limit': row.plan === null ? row.limitName : `${row.limitName}, if on ${row.plan}`,
    used: row.used,
    limit: row.limit,
    retry: formatDuration(row.retryAfterMs),
    'at limit': `${looksAtLimit} of ${looks}`,
  }))
  return [`${title}:`, terminal.formatTable(cells)]
}

function formatMebibytes(bytes: number): string {
  return `${(bytes / 2 ** 20).toFixed(1)} MiB`
}
