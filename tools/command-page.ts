/** Writes docs/command.md. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { commandPage } from '../src/command/page.ts'
import { SUBCOMMANDS } from '../src/command/subcommands.ts'

await writeFile(join(import.meta.dirname, '../docs/command.md'), commandPage(SUBCOMMANDS))
