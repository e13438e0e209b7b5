/**
 * Builds the Worker into build/, as `wrangler deploy` uploads it: what only some configurations need becomes modules of
 * their own, which an isolate loads when its variables ask for them. Prints what each way costs.
 */
import { readFileSync } from 'node:fs'
import { dirname, join, relative, sep } from 'node:path'
import { gzipSync } from 'node:zlib'
import { build, type Rolldown } from 'tsdown'
import type { UpstashRedis } from '../src/core/store/redis/client.ts'
import type { VariableName } from '../src/http/config/variables.ts'
import { findNeededParts } from './needed-parts.ts'

/** What every isolate loads may weigh, gzipped: it is parsed before the first request is answered. A test holds it. */
export const MAX_SCRIPT_KIB = 41
/** What may be uploaded, gzipped, for a configuration that asks for no more than limits over Redis. */
export const MAX_PLAIN_KIB = 75

const ROOT = join(import.meta.dirname, '..')

/** Modules that are loaded together, the entry first. */
export interface BuiltWorker {
  /** Modules that every isolate loads. */
  readonly script: readonly Rolldown.OutputChunk[]
  /** Modules that some isolates load on demand. */
  readonly lazy: readonly Rolldown.OutputChunk[]
}

interface BuildOptions {
  readonly minify?: boolean
  /** Paths below src/ of what the configuration loads; default: all parts may be needed. */
  readonly needed?: ReadonlySet<string> | undefined
}

/**
 * @param entry source of a Worker
 * @param outDir is emptied before
 */
export async function buildWorker(
  entry: string,
  outDir: string,
  { minify = true, needed }: BuildOptions = {},
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
    plugins: [withoutUnusedCommands, withoutMounting, needed && withoutUnneededParts(needed)],
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
    return core.has(id) ? 'core' : null
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

/** Removes what only `app.mount()` of Hono needs, which is deprecated there, and not called here. */
const withoutMounting: Rolldown.Plugin = {
  name: 'without-mounting',
  load: {
    filter: { id: /node_modules.hono.dist.utils.mount\.js$/ },
    handler: () => 'export const createMountedRequest = undefined',
  },
}

/** Parts that a Worker may do without, and the variables that ask for each: last the one that only does with some values. */
export const PARTS: Readonly<Record<string, readonly VariableName[]>> = {
  'core/options/calendar.ts': ['POLICIES'],
  'http/config/shards.ts': ['REDIS_SHARDS'],
  'core/store/redis/more-lua.ts': ['DECIDE_TOKEN', 'RULES', 'POLICIES'],
  'core/engine/stages/early-refusals.ts': ['DECIDE_TOKEN', 'RULES', 'POLICIES'],
  'http/request/settlement.ts': ['RULES', 'POLICIES'],
  'gateway/app/count-bodies.ts': ['RULES', 'POLICIES'],
  'http/response/follow-response.ts': ['RULES', 'POLICIES'],
  'http/request/identity/jwt/verify-tokens.ts': ['JWKS_URL', 'JWT_SECRET'],
  'core/shedding/upstream-health.ts': ['SHEDDING'],
  'core/engine/stages/mirror.ts': ['STORE_MIRROR'],
  'gateway/statistics/open-statistics.ts': ['STATISTICS', 'LOG_REFUSALS'],
  'core/engine/stages/leases.ts': ['LEASES'],
  'gateway/rules/open-rules.ts': ['RULES'],
  'gateway/admin/metrics.ts': ['METRICS_TOKEN'],
  'gateway/admin/admin.ts': ['ADMIN_TOKEN'],
  'gateway/app/self-service.ts': ['SELF_SERVICE'],
  'gateway/app/rewrite-locations.ts': ['REWRITE_LOCATION'],
  'gateway/app/cors.ts': ['CORS_ORIGINS'],
  'gateway/decide/decisions.ts': ['DECIDE_TOKEN'],
  'core/store/redis/upstash-backend.ts': ['UPSTASH_REDIS_REST_URL', 'REDIS_SHARDS'],
  'core/engine/join-backends.ts': ['REDIS_SHARDS'],
  'gateway/app/shard-health.ts': ['REDIS_SHARDS'],
  'core/store/durable-object/durable-object-store.ts': ['STORE'],
}

/** Leaves out what the configuration does not ask for: workerd compiles each module that is uploaded. */
function withoutUnneededParts(needed: ReadonlySet<string>): Rolldown.Plugin {
  return {
    name: 'without-unneeded-parts',
    transform: {
      filter: { id: /src.gateway.(?:create-handler|app.open-backend)\.ts$/ },
      handler(code, id) {
        const changed = code.replace(/\bimport\('(\.[^']+)'\)/g, (whole, source: string) => {
          const part = relative(join(ROOT, 'src'), join(dirname(id), source)).replaceAll(sep, '/')
          if (needed.has(part)) return whole
          const variables = PARTS[part]
          if (!variables) throw new Error(`PARTS lacks ${part}, which ${id} imports on demand`)
          return `refuseLeftOut(...${JSON.stringify(variables)})`
        })
        // It is added at the end, since source maps go by lines.
        const refuse = JSON.stringify(join(import.meta.dirname, 'left-out-part.ts'))
        return { code: `${changed}\nimport { refuseLeftOut } from ${refuse}`, map: null }
      },
    },
  }
}

/** Each module is packed by itself. */
export function countGzippedBytes(chunks: readonly Rolldown.OutputChunk[], folder: string): number {
  return chunks.reduce((sum, { fileName }) => sum + gzipSync(readFileSync(join(folder, fileName))).length, 0)
}

if (import.meta.main) {
  const folder = join(ROOT, 'build')
  // `npm run deploy` says for which configuration; Wrangler passes it on to this command.
  const { SLUICE_BUILD_FOR: args } = process.env
  const needed =
    args === undefined
      ? undefined
      : await findNeededParts(JSON.parse(args)).catch(({ message }: Error) => {
          console.error(message)
          process.exit(1)
        })
  const { script, lazy } = await buildWorker('src/worker.ts', folder, { needed })
  const format = (chunks: BuiltWorker['script']) => `${(countGzippedBytes(chunks, folder) / 1_024).toFixed(1)} KiB`
  console.log(`script of the Worker: ${format(script)} gzipped, of at most ${MAX_SCRIPT_KIB}`)
  console.log(`loaded on demand: ${lazy.length} modules, ${format(lazy)}`)
  console.log(
    `all modules: ${format([...script, ...lazy])}${needed ? ', of the parts that this configuration needs' : ''}`,
  )
}
