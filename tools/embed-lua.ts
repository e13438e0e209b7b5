/**
 * Writes `lua/*.lua` into modules, which every bundler and runtime can import: `npm run embed-lua`.
 *
 * With `--check`, it fails if a module is not what the files say. Comments, indentation, empty lines and spaces around
 * operators are left out: they would be a fifth of the Worker's bundle. What a chunk gets from others is read off its
 * line `local … = ...`, where `limit_state` stands for `limit-state.lua`.
 */
import { readdirSync } from 'node:fs'
import { basename, join } from 'node:path'
import { ROOT, readSource, writeGenerated } from './write-generated.ts'

/** What decides by sliding windows, which every Worker needs. */
const BASE: ReadonlySet<string> = new Set(['clock', 'decide', 'sliding-window'])

/** A bundler keeps all of a module's object: what some Workers have no use for has a module of its own. */
const MODULES = [
  { folder: 'lua/', module: 'src/core/store/redis/lua.ts', has: (chunk: string) => BASE.has(chunk) },
  { folder: 'lua/', module: 'src/core/store/redis/more-lua.ts', has: (chunk: string) => !BASE.has(chunk) },
  { folder: 'lua/counters/', module: 'src/core/store/redis/counters/lua.ts' },
  { folder: 'lua/documents/', module: 'src/core/store/redis/documents/lua.ts' },
  { folder: 'lua/upkeep/', module: 'src/command/upkeep/lua.ts' },
]

/** What the script that is joined from chunks hands to its main chunk. */
const HANDED_BY_SCRIPT = ['algorithms', 'now_us']

writeGenerated(new Map(MODULES.map(({ folder, module, has }) => [module, renderModule(folder, has)])), 'embed-lua')

function renderModule(folder: string, has: (chunk: string) => boolean = () => true): string {
  const chunks = readdirSync(join(ROOT, folder))
    .filter((file) => file.endsWith('.lua') && has(basename(file, '.lua')))
    .sort()
    .map((file) => {
      const source = readSource(folder + file)
      const [, names = ''] = /^local ([\w, ]+) = \.\.\.$/m.exec(source) ?? []
      const takes = names
        .split(', ')
        .filter((name) => name !== '' && !HANDED_BY_SCRIPT.includes(name))
        .map((name) => name.replaceAll('_', '-'))
      const lua = source
        .replace(/^ *--.*\n| -- .*$/gm, '')
        .replace(/^ +|\n(?=\n)/gm, '')
        .replace(/('[^']*')|(,| [=+*/<>]| [=~<>]=) /g, (_, text, operator) => text ?? operator.trim())
        .trim()
      return `  ${JSON.stringify(basename(file, '.lua'))}: ${JSON.stringify({ lua, takes })},\n`
    })
  return `// Made of ${folder}*.lua by \`npm run embed-lua\`. Do not edit.\nexport const LUA = {\n${chunks.join('')}} as const\n`
}
