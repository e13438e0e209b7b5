/** Writes docs/command.md from the texts of the command's help: `npm run command-page`. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import { RULES } from '../src/command/check/finding.ts'
import { EXIT_CODES } from '../src/command/command-error.ts'
import { SUBCOMMANDS } from '../src/command/program.ts'
import type { Subcommand } from '../src/command/subcommand.ts'
import { FIELDS, listFields } from './command-fields.ts'

const INTRODUCTION = `# The command

\`sluice\` looks after Sluice from a terminal: \`npm run sluice -- …\` in this repository, \`npx sluice …\` where the package is installed.
It reads variables as \`npm run dev\` does: those of the shell win over \`.dev.vars\`, which wins over \`wrangler.toml\`,
\`wrangler.json\` or \`wrangler.jsonc\`. So keys and digests are the Worker's own, if
\`IDENTITY_SECRET\` is known here. With \`--gateway\`, some subcommands ask [the admin API](admin.md#the-command-without-a-database) of a gateway, and need nothing but \`ADMIN_TOKEN\`. Colours are left out without a terminal and with \`NO_COLOR\`.
With \`--json\`, an error is \`{"error": …, "hint": …}\` on standard output beside the text on standard error; \`hint\`, what to do, may be missing.

This page is made of what \`sluice --help\` prints: \`npm run command-page\` writes it.`

if (import.meta.main) await writeFile(join(import.meta.dirname, '../docs/command.md'), renderCommandPage())

export function renderCommandPage(): string {
  const codes = Object.values(EXIT_CODES).map(([code, meaning]) => [`${code}`, meaning])
  const sections = SUBCOMMANDS.map((subcommand) =>
    renderSection(
      subcommand,
      subcommand.build(() => {}),
    ),
  )
  return `${[INTRODUCTION, '## Exit codes', table(['code', 'meaning'], codes), ...sections].join('\n\n')}\n`
}

function renderSection({ name, description, examples }: Subcommand, command: CommandUnknownOpts): string {
  const help = command.createHelp()
  const fields = FIELDS[name]
  const args = help
    .visibleArguments(command)
    .map((argument) => [code(argument.name()), help.argumentDescription(argument)])
  const options = help
    .visibleOptions(command)
    .filter(({ long }) => long !== '--help')
    .map((option) => [code(option.flags), help.optionDescription(option)])
  const parts = [
    `## sluice ${name}`,
    capitalized(description),
    `\`\`\`\nsluice ${name} ${command.usage()}\n\`\`\``,
    args.length > 0 ? table(['argument', 'meaning'], args) : '',
    options.length > 0 ? table(['option', 'meaning'], options) : '',
    `\`\`\`sh\n${Object.entries(examples)
      .map(([line, shows]) => `# ${shows}\nsluice ${line}`)
      .join('\n\n')}\n\`\`\``,
    name === 'check'
      ? table(
          ['rule', 'meaning'],
          Object.entries(RULES).map(([rule, [level, meaning]]) => [code(rule), `${level}: ${meaning}`]),
        )
      : '',
    fields
      ? `With \`--json\`, one line of JSON:\n\n${table(
          ['field', 'meaning'],
          listFields(fields).map(([paths, meaning]) => [paths.map(code).join(', '), meaning]),
        )}`
      : '',
  ]
  return parts.filter((part) => part !== '').join('\n\n')
}

/** Columns are as wide as their longest cell, as the formatter wants it. */
function table(header: readonly string[], body: readonly (readonly string[])[]): string {
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

function capitalized(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1)
}
