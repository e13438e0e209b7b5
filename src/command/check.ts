import { Option } from '@commander-js/extra-typings'
import { inspect, type Located } from './check/inspect.ts'
import { CommandError } from './command-error.ts'
import { CONFIG, ENV } from './settings/options.ts'
import { readSettings } from './settings/settings.ts'
import { defineCommand } from './subcommand.ts'
import type { Terminal } from './terminal.ts'

export const check = defineCommand({
  name: 'check',
  summary: 'find mistakes in the configuration, offline',
  description:
    'Finds everything for which the Worker would refuse to start, and what it would accept but is surely a mistake. ' +
    'It reads what `wrangler deploy` takes along: [vars] of wrangler.toml; secrets from .dev.vars and the shell if they ' +
    'are there.',
  examples: [
    { shows: 'before each deploy; `npm run build` and `npm run deploy` do it', line: 'check --env production' },
    { shows: 'what `npm run dev` would use', line: 'check --dev' },
  ],
  json: {
    ok: 'true if the exit code is 0',
    file: 'the wrangler.toml that was read',
    environment: 'the environment of it; null for the top of the file',
    'findings[].level': '"error" (the Worker would refuse to start), "warning" (surely a mistake) or "note"',
    'findings[].rule': 'what was looked for; see the table of rules',
    'findings[].message': 'what is wrong, in one line',
    'findings[].hint': 'what to do; may be missing',
    'findings[].file': 'file, or words for where else it comes from; may be missing',
    'findings[].line': 'line in the file, from 1; may be missing',
    'findings[].column': 'column, from 1; may be missing',
  },
  declare: (command) =>
    command
      .addOption(CONFIG)
      .addOption(ENV)
      .addOption(
        new Option('--dev', 'check what `npm run dev` would use: the shell and .dev.vars win over wrangler.toml'),
      )
      .addOption(new Option('--strict', 'exit with 1 for warnings, too')),
  async run({ terminal, env, cwd }, options) {
    const view = options.dev ? 'development' : 'deployed'
    const settings = readSettings({ cwd, shell: env, config: options.config, env: options.env, view })
    const { toml } = settings
    if (!toml) {
      throw new CommandError('no wrangler.toml here or above', { hint: 'Name it with --config.' })
    }
    const { findings, config } = inspect(settings, view)
    const count = (level: Located['level']) => findings.filter((finding) => finding.level === level).length
    const isOk = count('error') === 0 && (!options.strict || count('warning') === 0)
    const result = {
      ok: isOk,
      file: toml.file,
      environment: options.env ?? null,
      findings: findings.map(toJson),
    }
    terminal.show(result, () => {
      const lines = findings.flatMap((finding) => linesOf(finding, terminal))
      const counts = [amount(count('error'), 'error'), amount(count('warning'), 'warning')]
      const policies = amount(config?.policies.length ?? 0, 'policy', 'policies')
      return [...lines, `${toml.file}: ${policies}, ${counts.join(', ')}`].join('\n')
    })
    return isOk ? 'done' : 'found'
  },
})

function toJson({ level, rule, message, hint, at }: Located) {
  return { level, rule, message, ...(hint && { hint }), ...(typeof at === 'string' ? { file: at } : at) }
}

const COLOURS = { error: 'red', warning: 'yellow', note: 'blue' } as const

function linesOf({ level, rule, message, hint, at }: Located, terminal: Terminal): string[] {
  const place = typeof at === 'object' ? `${at.file}:${at.line}:${at.column}` : at
  const head = `${place === undefined ? '' : `${terminal.style('bold', place)}: `}${terminal.style(COLOURS[level], level)}`
  return [`${head}: ${message} ${terminal.style('dim', `[${rule}]`)}`, ...(hint ? [`  ${hint}`] : [])]
}

function amount(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`
}
