/**
 * Builds the Worker into build/, as `wrangler deploy` uploads it: what only some configurations need becomes modules of
 * their own, which an isolate loads when its variables ask for them. Prints what each way costs.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { build, type Rolldown } from 'tsdown'
import type { UpstashRedis } from '../src/core/store/redis/client.ts'

/** What every isolate loads may weigh, gzipped: it is parsed before the isolate starts. A test holds it. */
export const MAX_SCRIPT_KIB = 60

const ROOT = join(import.meta.dirname, '..')

/** Modules that are loaded together, the entry first. */
export interface BuiltWorker {
  /** Modules that every isolate loads. */
  readonly script: readonly Rolldown.OutputChunk[]
  /** Modules that some isolates load on demand. */
  readonly lazy: readonly Rolldown.OutputChunk[]
}

/**
 * @param entry source of a Worker
 * @param outDir is emptied before
 */
export async function buildWorker(
  entry: string,
  outDir: string,
  { minify = true }: { readonly minify?: boolean } = {},
): Promise<BuiltWorker> {
  const [built] = await build({
    config: false,
    cwd: ROOT,
    entry,
    outDir,
    outExtensions: () => ({ js: '.js' }),
    outputOptions: {
      comments: false,
      chunkFileNames: '[name].js',
      codeSplitting: { groups: [{ name: createGrouping(entry) }] },
    },
    // Packages have forms of their own for Workers. Modules of `node:` and `cloudflare:` are workerd's.
    platform: 'neutral',
    inputOptions: {
      resolve: { conditionNames: ['workerd', 'worker', 'browser', 'import'], mainFields: ['module', 'main'] },
    },
    deps: { neverBundle: /^(?:node|cloudflare):/, alwaysBundle: /^(?!\.|node:|cloudflare:)/, onlyBundle: false },
    plugins: [withoutUnusedCommands],
    minify,
    sourcemap: true,
    dts: false,
    logLevel: 'error',
  })
  const chunks = built?.chunks.filter((output) => output.type === 'chunk') ?? []
  const script = new Set(chunks.filter(({ isEntry }) => isEntry))
  for (const { imports } of script) {
    for (const chunk of chunks) if (imports.includes(chunk.fileName)) script.add(chunk)
  }
  return { script: [...script], lazy: chunks.filter((chunk) => !script.has(chunk)) }
}

/**
 * One module of all that every isolate needs: one for each set of those that share it would weigh more, since each is
 * packed by itself.
 */
function createGrouping(entry: string): (id: string, context: Rolldown.ChunkingContext) => string | null {
  let core: Set<string> | undefined
  return function nameGroup(id, context) {
    if (!core) {
      core = new Set([join(ROOT, entry)])
      for (const needed of core)
        for (const imported of context.getModuleInfo(needed)?.importedIds ?? []) core.add(imported)
    }
    // What is imported while the entry still runs must not need a module that runs with it.
    return core.has(id) && id !== join(ROOT, entry) ? 'core' : null
  }
}

/** What the stores call of a client of `@upstash/redis`, and what its constructor needs. */
const COMMANDS = { evalsha: 1, eval: 1, zrem: 1, del: 1, ping: 1 } satisfies Record<keyof UpstashRedis, 1>
const OWN = ['constructor', 'client', 'opts', 'enableTelemetry', 'enableAutoPipelining', 'addTelemetry']
const KEPT = new Set([...OWN, ...Object.keys(COMMANDS)])

/**
 * Removes the commands of `@upstash/redis` that the Worker never sends. They are members of a class, which no bundler
 * removes, and an isolate would compile them at each cold start. A release that is written differently is left as it is.
 */
const withoutUnusedCommands: Rolldown.Plugin = {
  name: 'without-unused-commands',
  transform: {
    filter: { id: /node_modules.@upstash.redis.chunk-/ },
    handler(code, id) {
      // The peers of the bench have a client of their own.
      if (id.startsWith(join(ROOT, 'bench'))) return undefined
      const [, before, body, after] = /^(.*\nvar Redis = class \{\n)(.*?)(\n\};\n.*)$/s.exec(code) ?? []
      if (body === undefined) return undefined
      const members = body.split(/^(?= {2}[a-z])/im).map((member) => {
        const [, name = ''] = /^ {2}(?:[gs]et )?(\w+)/.exec(member) ?? []
        // Source maps go by lines.
        return KEPT.has(name) ? member : member.replace(/.+/g, '')
      })
      return { code: [before, ...members, after].join(''), map: null }
    },
  },
}

/** Each module is packed by itself. */
export function countGzippedBytes(chunks: readonly Rolldown.OutputChunk[], folder: string): number {
  return chunks.reduce((sum, { fileName }) => sum + gzipSync(readFileSync(join(folder, fileName))).length, 0)
}

if (import.meta.main) {
  const folder = join(ROOT, 'build')
  const { script, lazy } = await buildWorker('src/worker.ts', folder)
  const format = (chunks: BuiltWorker['script']) => `${(countGzippedBytes(chunks, folder) / 1_024).toFixed(1)} KiB`
  console.log(`script of the Worker: ${format(script)} gzipped, of at most ${MAX_SCRIPT_KIB}`)
  console.log(`loaded on demand: ${lazy.length} modules, ${format(lazy)}`)
  console.log(`all modules: ${format([...script, ...lazy])}`)
}
