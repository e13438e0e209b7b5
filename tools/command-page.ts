/** Writes docs/cli.md from the texts of the command: `npm run command-page`. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { CODES } from '../src/command/check/finding.ts'
import { EXIT_CODES } from '../src/command/command-error.ts'
import { SUBCOMMANDS } from '../src/command/program.ts'
import type { Subcommand } from '../src/command/subcommand.ts'

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
- **JSON.** \`--json\` prints one line, [mostly the answer of an operation](api/command-json.md).

\`npm run command-page\` writes this page.`

const JSON_INTRODUCTION = `# What the command prints as JSON

With \`--json\`, each subcommand prints one line; \`usage --watch\` and \`top\` print one each time.
An error is \`{"error": …, "hint": …}\`, with an optional \`hint\`.
Times that end in \`Ms\` are in milliseconds.

## Operations

What these print is the answer of an operation, as \`GET /_sluice/admin/openapi.json\` describes it, and the host:
\`gateway\`, or \`redis\` where the command does the same on the database.`

const JSON_OPERATIONS = [
  ['`usage`', '`POST /usage`', ''],
  ['`reset`', '`POST /reset`', '`reset`: false after a no; `keys[].used`: units that were counted'],
  ['`block`, `allow`, `override`', '`POST /block`, `/allow`, `/override`', ''],
  ['the same with `--list`', '`GET /rules`', 'only `version`, and one list of its `rules`, such as `blocks`'],
  [
    '`policies show`',
    '`GET /version`',
    'in place of `rules`: `source` (`rules` or `POLICIES`), `policies`, and how many `blocks`, `allows` and `overrides`',
  ],
  ['`policies diff`', '`POST /policies/diff`', '`version`: the newest'],
  ['`policies push`, `rollback`', '`POST /policies/push`, `/rollback`', '`changes`, as of `diff`'],
  ['`policies versions`', '`GET /versions`', ''],
]

const JSON_OTHERS = `## sluice check

- \`ok\`: whether the exit code is 0. \`file\`, \`environment\`: what was read; null: the top of the file.
- \`findings[]\`: \`level\`, \`code\` ([meanings](../cli.md#what-sluice-check-finds)), \`message\`, and where they are known \`hint\`, \`file\`, \`line\`, \`column\`.
- \`request\`, if one was named: \`method\`, canonical \`path\`, \`priority\`, and \`verdict\`: how it is answered without counting, null if policies decide.
  Its \`policies[]\` have \`policy\`, \`applies\` and \`why\`; if they count it, \`identity\`, \`key\`, \`cost\`, \`reserved\`, \`limits\`, \`penalty\`, \`mode\`.

## sluice simulate

- \`complete\`: false after Ctrl-C. \`requests\`, \`from\`, \`to\`: those that were replayed. \`lines\`, \`unreadable\`, and \`firstUnreadable\` with \`file\`, \`line\`, \`text\`.
- \`seconds\`, \`requestsPerSecond\`: of the simulation. \`out\`: the page that was written. \`notes[]\`: what it cannot tell.
- \`results[]\`, one for each variant of \`limits\`, \`algorithm\` and \`leases\` (null: as configured):
  - \`admitted\`, \`refused\`, and \`rejected\`, which were answered without counting;
  - \`policies[]\` with \`policy\`, \`mode\`, \`requests\`, \`admitted\`, \`refused\` (in shadow mode: would have);
  - \`callers[]\`, the ten refused most: \`policy\`, \`digest\`, \`caller\` with \`--show-callers\`, \`refused\`, which is exact (\`uncertainty\` is 0);
  - \`wait\` with \`medianMs\`, \`p95Ms\`, \`longestMs\`, until refused requests would be admitted; null if none was;
  - \`calls\` of the script, billed \`commands\`, and \`dollars\` at $0.20 for 100,000;
  - \`buckets[]\` of \`bucketMs\`: \`from\`, \`admitted\`, \`refused\`, and the same in \`policies[]\`.

## sluice top

- \`redis\`: the host; \`atMs\`; \`server\` with all \`keys\` of the database, \`latencyMs\`, \`slowestMs\` of PING, \`memoryBytes\`, \`memoryLimitBytes\`, \`memoryPolicy\`.
- \`keys\` of Sluice, an estimate until \`passes\` is 1; \`share\` of this pass; keys \`withoutTtl\`, of which there must be none; \`unknown\`: of no configured policy.
- \`busiest[]\`, \`atLimit[]\`: \`policy\`, \`digest\`, \`unitsPerS\` of late, the fullest limit (\`limitName\`, \`used\`, \`limit\`), \`retryAfterMs\`, and of its \`looks\` how often it was at a limit (\`looksAtLimit\`).

## sluice expire

- \`complete\`, \`dryRun\`, \`match\`; \`share\` of the database that was seen; \`seconds\` of all its runs; \`keysPerSecond\`, \`longestScriptMs\`, and \`pauses\` for the server, of this one.
- \`seen\`: matching keys that were found; of these \`set\` got \`ttlMs\` (with \`dryRun\`: would get it), \`had\` one or are rules or audit logs, were \`gone\`, or \`unnameable\` over REST.
- With \`--sample\`, estimates for the whole database: \`matching\`, \`settable\`; and \`examples[]\` of names.

## sluice delete

The same, with \`deleted\` in place of \`ttlMs\`, \`set\`, \`had\` and \`settable\`.`

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

/** Renders docs/api/command-json.md: what neither schemas nor the command itself can say. */
export function renderJsonPage(): string {
  const table = renderTable(['subcommand', 'operation', 'difference'], JSON_OPERATIONS)
  return `${[JSON_INTRODUCTION, table, JSON_OTHERS].join('\n\n')}\n`
}

function toRow({ name, summary, examples }: Subcommand): readonly string[] {
  return [code(name), summary, code(`sluice ${Object.keys(examples)[0] ?? name}`)]
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
