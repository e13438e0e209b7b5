/** Writes docs/cli.md from the texts of the command: `npm run command-page`. */
import { CODES } from '../src/command/check/finding.ts'
import { EXIT_CODES } from '../src/command/command-error.ts'
import { SUBCOMMANDS } from '../src/command/program.ts'
import type { Subcommand } from '../src/command/subcommand.ts'
import { writeGenerated } from './write-generated.ts'

const INTRODUCTION = `# The command

\`sluice\` looks after Sluice from a terminal: \`npm run sluice -- …\` in this repository (\`npm run -s\` with \`--json\`), \`npx sluice …\` elsewhere, which fetches the package \`sluice-command\`.
\`sluice <name> --help\` has the arguments, options and examples of each subcommand.

- **Configuration.** It reads [variables](variables.md) as \`npm run dev\` does (\`check\` only with \`--dev\`), also from \`wrangler.json\` or \`.jsonc\`.
  So keys and digests are the Worker's own, if \`IDENTITY_SECRET\` is known here.
- **Database or gateway.** \`usage\`, \`reset\`, \`block\`, \`allow\`, \`override\` and \`policies\` use the Worker's Redis, another one with \`--redis <url>\`,
  or, with \`--gateway <url>\`, the [admin API](admin.md), which needs only \`ADMIN_TOKEN\` (from the shell or \`.dev.vars\`) and is the only way with Durable Objects.
  \`top\`, \`expire\` and \`delete\` need Redis.
- **Callers.** A token, or \`-\` to read it from standard input; \`--ip\`, \`--header\`, \`--query\`, \`--cookie\`, \`--form\`, \`--json-member\`, \`--claim\`, \`--digest\`.
- **Questions.** \`reset\`, \`policies push\` and \`rollback\`, \`expire\` and \`delete\` ask first, unless with \`--yes\`.
- **JSON.** \`--json\` prints one line, [mostly the answer of an operation](api/command-json.md).

\`npm run command-page\` writes this page.`

if (import.meta.main) writeGenerated(new Map([['docs/cli.md', renderCommandPage()]]), 'command-page')

export function renderCommandPage(): string {
  const codes = Object.values(EXIT_CODES).map(([code, meaning]) => `- ${code}: ${meaning}`)
  const findings = ['error', 'warning', 'note'].flatMap((level) => {
    const own = Object.entries(CODES).filter(([, [ownLevel]]) => ownLevel === level)
    return [`As ${level}s:`, own.map(([name, [, meaning]]) => `- ${toCode(name)}: ${meaning}`).join('\n')]
  })
  const parts = [
    INTRODUCTION,
    '## Subcommands',
    SUBCOMMANDS.map(toLine).join('\n'),
    '## Exit codes',
    codes.join('\n'),
    '## What `sluice check` finds',
    ...findings,
  ]
  return `${parts.join('\n\n')}\n`
}

function toLine({ name, summary }: Subcommand): string {
  return `- ${toCode(name)}: ${summary}`
}

function toCode(text: string): string {
  return `\`${text}\``
}
