/** Writes docs/cli.md from the texts of the command: `npm run command-page`. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { CODES } from '../src/command/check/finding.ts'
import { EXIT_CODES } from '../src/command/command-error.ts'
import { SUBCOMMANDS } from '../src/command/program.ts'
import type { Subcommand } from '../src/command/subcommand.ts'
import { FIELDS, listFields } from './command-fields.ts'

const INTRODUCTION = `# The command

\`sluice\` looks after Sluice from a terminal: \`npm run sluice -- …\` in this repository, \`npx sluice …\` where the package is installed.
\`sluice <name> --help\` has the arguments, options and examples of each subcommand.

- **Configuration.** It reads variables as \`npm run dev\` does (\`check\` only with \`--dev\`): from the shell, then \`.dev.vars\`, then \`wrangler.toml\`, \`.json\` or \`.jsonc\`.
  So keys and digests are the Worker's own, if \`IDENTITY_SECRET\` is known here.
- **Database or gateway.** \`usage\`, \`reset\`, \`block\`, \`allow\`, \`override\` and \`policies\` use the Worker's Redis, another one with \`--redis <url>\`,
  or, with \`--gateway <url>\`, the [admin API](admin.md), which needs only \`ADMIN_TOKEN\` (from the shell or \`.dev.vars\`; never an option)
  and is the only way with Durable Objects. \`top\`, \`expire\` and \`delete\` need Redis; \`check\` and \`simulate\` neither.
- **Callers.** A token, or \`-\` to read it from standard input; \`--ip\`, \`--header\`, \`--query\`, \`--cookie\`, \`--form\`, \`--json-member\`, \`--claim\`, \`--digest\`.
- **Questions.** \`reset\`, \`policies push\` and \`rollback\`, \`expire\` and \`delete\` ask first; with \`--yes\` they do not.
- **JSON.** \`--json\` prints one line, whose fields are [listed](api/command-json.md).

\`npm run command-page\` writes this page.`

const JSON_INTRODUCTION = `# What the command prints as JSON

With \`--json\`, each subcommand prints one line. An error is \`{"error": …, "hint": …}\`, with an optional \`hint\`.
\`npm run docs:api\` writes this page.`

if (import.meta.main) await writeFile(join(import.meta.dirname, '../docs/cli.md'), renderCommandPage())

export function renderCommandPage(): string {
  const codes = Object.values(EXIT_CODES).map(([code, meaning]) => [`${code}`, meaning])
  const findings = Object.entries(CODES).map(([name, [level, meaning]]) => [code(name), `${level}: ${meaning}`])
  const parts = [
    INTRODUCTION,
    '## Subcommands',
    renderTable(['subcommand', 'purpose', 'example'], SUBCOMMANDS.map(toRow)),
    '## Exit codes',
    renderTable(['code', 'meaning'], codes),
    '## What `sluice check` finds',
    renderTable(['code', 'meaning'], findings),
  ]
  return `${parts.join('\n\n')}\n`
}

/** Renders docs/api/command-json.md. */
export function renderJsonPage(): string {
  return `${[JSON_INTRODUCTION, ...Object.keys(FIELDS).map(renderFields)].join('\n\n')}\n`
}

function toRow({ name, summary, examples }: Subcommand): readonly string[] {
  return [code(name), summary, code(`sluice ${Object.keys(examples)[0] ?? name}`)]
}

function renderFields(name: string): string {
  const rows = listFields(FIELDS[name] ?? {}).map(([paths, meaning]) => [paths.map(code).join(', '), meaning])
  return `## sluice ${name}\n\n${renderTable(['field', 'meaning'], rows)}`
}

/** Columns are as wide as their longest cell, as the formatter wants it. */
export function renderTable(header: readonly string[], body: readonly (readonly string[])[]): string {
  const rows = [header, ...body].map((row) => row.map((cell) => cell.replaceAll('|', '\\|')))
  const widths = header.map((_, at) => Math.max(3, ...rows.map((row) => row[at]?.length ?? 0)))
  const lines = rows.map((row) => row.map((cell, at) => cell.padEnd(widths[at] ?? 0)))
  lines.splice(
    1,
    0,
    widths.map((width) => '-'.repeat(width)),
  )
  return lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n')
}

function code(text: string): string {
  return `\`${text}\``
}
