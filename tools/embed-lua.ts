/**
 * Writes `lua/*.lua` into a module, which every bundler and runtime can import: `npm run embed-lua`.
 *
 * With `--check`, it fails if the module is not what the files say. Comments on lines of their own are left out: they
 * would be a sixth of the Worker's bundle. What a chunk gets from others is read off its line `local … = ...`, where
 * `tier_usage` stands for `tier-usage.lua`.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'

const FOLDER = fileURLToPath(import.meta.resolve('../lua/'))
const MODULE = fileURLToPath(import.meta.resolve('../src/store/redis/lua.ts'))

/** What the script that is joined from chunks hands to its main chunk. */
const HANDED_BY_SCRIPT = ['algorithms', 'now_us']

const chunks = readdirSync(FOLDER)
  .filter((file) => file.endsWith('.lua'))
  .sort()
  .map((file) => {
    const source = readFileSync(FOLDER + file, 'utf8')
    const [, names = ''] = /^local ([\w, ]+) = \.\.\.$/m.exec(source) ?? []
    const takes = names
      .split(', ')
      .filter((name) => name !== '' && !HANDED_BY_SCRIPT.includes(name))
      .map((name) => name.replaceAll('_', '-'))
    const lua = source.replace(/^ *--.*\n/gm, '').trim()
    return `  ${JSON.stringify(basename(file, '.lua'))}: ${JSON.stringify({ lua, takes })},\n`
  })

const text = `// Made of lua/*.lua by \`npm run embed-lua\`. Do not edit.
export const LUA = {
${chunks.join('')}} as const
`

if (!process.argv.includes('--check')) writeFileSync(MODULE, text)
else if (readFileSync(MODULE, 'utf8') !== text) {
  console.error('src/store/redis/lua.ts is not what lua/*.lua say: npm run embed-lua')
  process.exit(1)
}
