/** `sluice check`: finds mistakes in a configuration, and explains what applies to a request. */

import { Argument, Option } from '@commander-js/extra-typings'
import { isEnforced } from '../core/model/policy.ts'
import { type Explanation, explain } from './check/explain.ts'
import { inspect, type LeveledFinding } from './check/inspect.ts'
import { CommandError } from './command-error.ts'
import { formatCount } from './format.ts'
import { CALLER_OPTIONS } from './operate/options.ts'
import { readSettings } from './settings/settings.ts'
import { CONFIG, defineCommand, ENV } from './subcommand.ts'
import type { Terminal } from './terminal.ts'

export const check = defineCommand({
  name: 'check',
  summary: 'find mistakes in the configuration, offline',
  description:
    'Finds everything for which the Worker would refuse to start, and what it would accept but is surely a mistake, in what ' +
    '`wrangler deploy` takes along: [vars] of wrangler.toml, .json or .jsonc, and secrets of .dev.vars and the shell if they ' +
    'are there. With a request it also says which policies apply to it, by what identity, at what cost, and why.',
  examples: {
    'check --env production': 'before each deploy; `npm run build` and `npm run deploy` do it',
    'check --dev': 'what `npm run dev` would use',
    "check 'POST /login' -H 'Authorization: Bearer x' --ip 203.0.113.7": 'which policies a request meets, and why',
  },
  declare: (command) =>
    command
      .addArgument(new Argument('[request...]', 'such as "POST /login": say what policies make of it'))
      .addOption(CALLER_OPTIONS.header)
      .addOption(CALLER_OPTIONS.form)
      .addOption(CALLER_OPTIONS.claim)
      .addOption(CALLER_OPTIONS.ip)
      .addOption(CONFIG)
      .addOption(ENV)
      .addOption(new Option('--dev', 'check what `npm run dev` would use: the shell and .dev.vars come first'))
      .addOption(new Option('--deploy', 'as `npm run deploy`: an example as UPSTREAM_URL is an error'))
      .addOption(new Option('--strict', 'exit with 1 for warnings, too')),
  async run({ terminal, env, cwd }, options, words) {
    const view = options.dev ? 'development' : 'deployed'
    const settings = readSettings({ cwd, shell: env, config: options.config, env: options.env, view })
    const { file } = settings
    if (!file) {
      const hint = 'Name it with --config.'
      throw new CommandError('no wrangler.toml, wrangler.json or wrangler.jsonc here or above', { hint })
    }
    const inspected = inspect(settings, view)
    const { config } = inspected
    const isFatal = ({ code }: LeveledFinding) => options.deploy && code === 'example-upstream'
    const findings = inspected.findings.map(
      (each): LeveledFinding => (isFatal(each) ? { ...each, level: 'error' } : each),
    )
    const count = (level: LeveledFinding['level']) => findings.filter((finding) => finding.level === level).length
    const isOk = count('error') === 0 && (!options.strict || count('warning') === 0)
    const route = words.join(' ')
    if (words.length === 0 && (options.header || options.form || options.claim || options.ip)) {
      throw new CommandError('expected a request, such as "POST /login"')
    }
    const request = config && words.length > 0 ? await explain(config, { route, ...options }) : undefined
    const result = {
      ok: isOk,
      file: file.name,
      environment: options.env ?? null,
      findings: findings.map(toJson),
      ...(request && { request }),
    }
    terminal.show(result, () => {
      const lines = findings.flatMap((finding) => formatFinding(finding, terminal))
      const counts = [formatCount(count('error'), 'error'), formatCount(count('warning'), 'warning')]
      const policies = config?.policies.length === 1 ? '1 policy' : `${config?.policies.length ?? 0} policies`
      const explained = request ? ['', ...formatRequest(request, terminal)] : []
      return [...lines, `${file.name}: ${policies}, ${counts.join(', ')}`, ...explained].join('\n')
    })
    return isOk ? 'done' : 'found'
  },
})

function toJson({ level, code, message, hint, at }: LeveledFinding) {
  return { level, code, message, ...(hint && { hint }), ...(typeof at === 'string' ? { file: at } : at) }
}

const COLOURS = { error: 'red', warning: 'yellow', note: 'blue' } as const

function formatFinding({ level, code, message, hint, at }: LeveledFinding, terminal: Terminal): string[] {
  const place = typeof at === 'object' ? `${at.file}:${at.line}:${at.column}` : at
  const head = `${place === undefined ? '' : `${terminal.style('bold', place)}: `}${terminal.style(COLOURS[level], level)}`
  return [`${head}: ${message} ${terminal.style('dim', `[${code}]`)}`, ...(hint ? [`  ${hint}`] : [])]
}

function formatRequest(request: Explanation, terminal: Terminal): string[] {
  const { method, path, verdict, priority, policies } = request
  const counting = policies.filter((each) => 'key' in each)
  const rows = counting.map(({ penalty, mode, reserved, limits, cost, ...policy }) => ({
    policy: isEnforced({ mode }) ? policy.policy : `${policy.policy} (${mode})`,
    limits: penalty === undefined ? limits.join(', ') : `${limits.join(', ')}; penalty ${penalty}`,
    'counted by': policy.identity,
    cost: reserved > 0 ? `${cost}, leaving ${reserved}` : `${cost}`,
    why: policy.why,
    key: policy.key,
  }))
  const others = policies.filter((each) => !('key' in each))
  return [
    `${terminal.style('bold', `${method} ${path}`)}${priority === null ? '' : `  priority ${priority}`}`,
    ...(verdict === null ? [] : [verdict]),
    ...(rows.length > 0 ? [terminal.formatTable(rows)] : []),
    ...(verdict === null && rows.length === 0 ? ['no policy limits it'] : []),
    ...others.map(({ policy, applies, why }) => `${policy}: ${applies ? '' : 'skipped, '}${why}`),
  ]
}
