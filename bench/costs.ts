/**
 * Writes the tables of docs/costs.md, from bench/results/scale.md and published prices. At once.
 *
 *     npm run bench:costs
 */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { renewPage } from './report/markdown.ts'
import { formatCosts } from './scale/costs.ts'

const PAGE = join(import.meta.dirname, '../docs/costs.md')
const tables = formatCosts(await readFile(join(import.meta.dirname, 'results/scale.md'), 'utf8'))
for (const [name, table] of tables) console.log(`${name}\n${table}\n`)
await writeFile(PAGE, renewPage(await readFile(PAGE, 'utf8'), tables))
