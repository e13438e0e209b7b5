import { findProblems } from '../../config/all-problems.ts'
import { type Config, OBJECTS } from '../../config/load-config.ts'
import { locate, placeInJson } from '../settings/locate.ts'
import type { Settings } from '../settings/settings.ts'
import type { Place } from '../settings/wrangler-file.ts'
import type { Finding, Level } from './finding.ts'
import { withKnownKeys } from './known-elsewhere.ts'
import { MISTAKES, MISTAKES_OF_POLICIES } from './mistakes.ts'
import { refusals } from './refusals.ts'
import { levelOf } from './rules.ts'

/** A finding, and where it is: a place in a file, or words for another place. */
export interface Located extends Finding {
  readonly level: Level
  readonly at: Place | string | undefined
}

export interface Inspection {
  /** In the order of the file. */
  readonly findings: readonly Located[]
  /** Undefined if too much is wrong to tell. */
  readonly config: Config | undefined
  /** Whether the Worker would start with it. */
  readonly isAccepted: boolean
}

/** Finds what is wrong with a configuration. */
export function inspect(given: Settings, view: 'deployed' | 'development'): Inspection {
  const settings = view === 'development' ? withoutReplaced(given) : given
  const { problems, config } = findProblems(environmentOf(settings, view))
  const areRight = !problems.some(({ variable }) => /^(?:RATE_LIMITS|POLICIES|EXEMPT)$/.test(variable))
  const mistakes = [...MISTAKES, ...(areRight ? MISTAKES_OF_POLICIES : [])]
  const found = [
    ...refusals(problems, settings.variables),
    ...(config ? mistakes.flatMap((find) => find(config, settings)) : []),
  ]
  const findings = found.map((finding) => ({
    ...finding,
    level: levelOf(finding.rule),
    at: placeOf(finding, settings),
  }))
  return { findings: findings.toSorted(byPlace), config, isAccepted: problems.length === 0 }
}

/** Without what `npm run dev` replaces: requests of a development server do not go to the API of the deploy. */
function withoutReplaced(settings: Settings): Settings {
  const sources = new Map(settings.sources)
  const { UPSTREAM_URL: url, ...variables } = settings.variables
  const isKept = url !== undefined && sources.get('UPSTREAM_URL') !== 'wrangler'
  if (isKept) return settings
  sources.delete('UPSTREAM_URL')
  return { ...settings, sources, variables: { ...variables, UPSTREAM_URL: 'http://127.0.0.1' } }
}

/** What the Worker would be handed, its bindings included. */
function environmentOf({ variables, file, root }: Settings, view: 'deployed' | 'development'): Record<string, unknown> {
  const env: Record<string, unknown> = { ...variables }
  const services = file?.get(...root, 'services')
  const isBound = Array.isArray(services) && services.some((service) => service?.binding === 'UPSTREAM')
  if (isBound) env.UPSTREAM = { fetch() {} }
  const objects = file?.get(...root, 'durable_objects', 'bindings')
  if (Array.isArray(objects) && objects.some((object) => object?.name === OBJECTS)) env[OBJECTS] = { idFromName() {} }
  // Whoever moves from one store to the other has both.
  const needsRedis = env.STORE === 'redis' || env.STORE_SHADOW !== undefined
  const knows = env.UPSTASH_REDIS_REST_URL !== undefined || env.UPSTASH_REDIS_REST_TOKEN !== undefined
  // What is not known here is known to Cloudflare; `npm run dev` starts a Redis of its own where none is named.
  if (view === 'deployed' ? knows || needsRedis : needsRedis && !knows) {
    env.UPSTASH_REDIS_REST_URL ??= 'https://known-elsewhere.invalid'
    env.UPSTASH_REDIS_REST_TOKEN ??= 'known-elsewhere'
  }
  return view === 'deployed' ? withKnownKeys(env) : env
}

function placeOf({ variable, path, isName, filePath, offset }: Finding, settings: Settings): Located['at'] {
  const { file, root, variables, sources } = settings
  if (filePath) return file?.placeOfKey(filePath) ?? file?.name
  if (variable === undefined) return file?.name
  if (offset === undefined) return locate(settings, variable, path, isName)
  const text = `${variables[variable]}`
  const inFile =
    sources.get(variable) === 'wrangler' ? file?.placeInString([...root, 'vars', variable], offset) : undefined
  const whole = locate(settings, variable)
  if (inFile || typeof whole === 'object') return inFile ?? whole
  return `${whole}${placeInJson(text, offset)}`
}

function byPlace({ at: one }: Located, { at: other }: Located): number {
  if (typeof one !== 'object' || typeof other !== 'object')
    return Number(typeof one !== 'object') - Number(typeof other !== 'object')
  return one.file === other.file ? one.line - other.line || one.column - other.column : 0
}
