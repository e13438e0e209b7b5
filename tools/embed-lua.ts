/**
 * Writes `lua/*.lua` into modules, which every bundler and runtime can import: `npm run embed-lua`.
 *
 * With `--check`, it fails if a module is not what the files say. Comments, indentation and empty lines are left out:
 * they would be a fifth of the Worker's bundle. What a chunk gets from others is read off its line `local … = ...`, where
 * `tier_usage` stands for `tier-usage.lua`.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'

/** A bundler keeps all of a module's object: what the Worker has no use for has a module of its own. */
const MODULES = {
  'lua/': 'src/store/redis/lua.ts',
  'lua/counters/': 'src/store/redis/counters/lua.ts',
  'lua/documents/': 'src/store/redis/documents/lua.ts',
  'lua/upkeep/': 'src/command/upkeep/lua.ts',
}

/** What the script that is joined from chunks hands to its main chunk. */
const HANDED_BY_SCRIPT = ['algorithms', 'now_us']

const isChecking = process.argv.includes('--check')
for (const [folder, module] of Object.entries(MODULES)) {
  const text = moduleOf(folder)
  const file = inRepository(module)
  if (!isChecking) writeFileSync(file, text)
  else if (readFileSync(file, 'utf8') !== text) {
    console.error(`${module} is not what ${folder}*.lua say: npm run embed-lua`)
    process.exitCode = 1
  }
}

function moduleOf(folder: string): string {
  const chunks = readdirSync(inRepository(folder))
    .filter((file) => file.endsWith('.lua'))
    .sort()
    .map((file) => {
      const source = readFileSync(inRepository(folder + file), 'utf8')
      const [, names = ''] = /^local ([\w, ]+) = \.\.\.$/m.exec(source) ?? []
      const takes = names
        .split(', ')
        .filter((name) => name !== '' && !HANDED_BY_SCRIPT.includes(name))
        .map((name) => name.replaceAll('_', '-'))
      const lua = source
        .replace(/^ *--.*\n| -- .*$/gm, '')
        .replace(/^ +|\n(?=\n)/gm, '')
        .trim()
      return `  ${JSON.stringify(basename(file, '.lua'))}: ${JSON.stringify({ lua, takes })},\n`
    })
  return `// Made of ${folder}*.lua by \`npm run embed-lua\`. Do not edit.\nexport const LUA = {\n${chunks.join('')}} as const\n`
}

function inRepository(path: string): string {
  return fileURLToPath(import.meta.resolve(`../${path}`))
}
