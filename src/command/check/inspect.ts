import { findProblems } from '../../config/all-problems.ts'
import { type Environment, OBJECTS } from '../../config/load-config.ts'
import type { OptionError } from '../../config/option-error.ts'
import { countEdits, VARIABLES } from '../../config/variables.ts'
import { locate } from '../settings/locate.ts'
import { createStandIn, type Settings } from '../settings/settings.ts'
import { findJsonMistake, type Path } from '../settings/wrangler-file.ts'
import { CODES, type Finding, type Level } from './finding.ts'
import { findPolicyMistakes, withKnownKeys } from './policy-mistakes.ts'
import { findSettingsMistakes } from './settings-mistakes.ts'

export type LeveledFinding = Finding & { readonly level: Level }

/** @returns findings sorted by place; the configuration is undefined if it has too many errors */
export function inspect(settings: Settings, view: 'deployed' | 'development') {
  const { problems, config } = findProblems(readEnvironment(settings, view))
  const all = problems.map((problem) => toFinding(problem, settings))
  if (config) all.push(...findSettingsMistakes(config, settings))
  const arePoliciesValid = !problems.some(({ variable }) => /^(?:RATE_LIMITS|POLICIES|EXEMPT)$/.test(variable))
  if (config && arePoliciesValid) all.push(...findPolicyMistakes(config, settings))
  const findings = all.map((finding): LeveledFinding => ({ ...finding, level: CODES[finding.code][0] }))
  return { findings: findings.toSorted(comparePlaces), config }
}

/** Adds the bindings, and stand-ins for values that only Cloudflare knows. */
function readEnvironment(settings: Settings, view: 'deployed' | 'development'): Record<string, unknown> {
  const env: Record<string, unknown> = { ...settings.variables, ...readBindings(settings) }
  // `npm run dev` starts an API if none is named.
  if (view === 'development') env.UPSTREAM_URL ??= 'http://127.0.0.1'
  // A move from one store to the other needs both.
  const needsRedis = env.STORE === 'redis' || env.STORE_MIRROR !== undefined
  const knowsRedis = env.UPSTASH_REDIS_REST_URL !== undefined || env.UPSTASH_REDIS_REST_TOKEN !== undefined
  // Cloudflare may know what is missing here; `npm run dev` starts its own Redis if none is named.
  if (view === 'deployed' ? knowsRedis || needsRedis : needsRedis && !knowsRedis) {
    for (const name of ['UPSTASH_REDIS_REST_URL', 'UPSTASH_REDIS_REST_TOKEN']) env[name] ??= createStandIn(name)
  }
  return view === 'deployed' ? withKnownKeys(env) : env
}

/** Stand-ins for the bindings of Wrangler's file that the gateway uses. */
export function readBindings({ file, root }: Settings): Environment {
  const hasBinding = (key: 'name' | 'binding', name: string, ...path: Path) => {
    const bindings = file?.get(...root, ...path)
    return Array.isArray(bindings) && bindings.some((each) => each?.[key] === name)
  }
  return {
    ...(hasBinding('binding', 'UPSTREAM', 'services') && { UPSTREAM: { fetch() {} } }),
    ...(hasBinding('name', OBJECTS, 'durable_objects', 'bindings') && { [OBJECTS]: { idFromName() {} } }),
    ...(hasBinding('binding', 'ANALYTICS', 'analytics_engine_datasets') && { ANALYTICS: { writeDataPoint() {} } }),
  }
}

function toFinding({ variable, path, message, code }: OptionError, settings: Settings): Finding {
  const value = settings.variables[variable]
  const isJson = variable === 'POLICIES' && path.length === 0 && typeof value === 'string'
  const mistake = isJson ? findJsonMistake(value) : undefined
  if (mistake) {
    const at = locate(settings, variable, [], mistake.offset)
    return { code: 'json', message: `POLICIES: JSON that cannot be read: ${mistake.message}`, at }
  }
  const isName = code === 'UNKNOWN_OPTION' || code === 'UNKNOWN_VARIABLE'
  const [, names] = (isName && /; expected one of (.+)$/.exec(message)) || []
  const hint = names && suggestName(`${path.at(-1) ?? ''}`, names.split(', '))
  return { code: 'refused', message, hint, at: locate(settings, variable, path, isName ? 'name' : 'value') }
}

function suggestName(name: string, known: readonly string[]): string | undefined {
  if ((VARIABLES as readonly string[]).includes(name)) {
    return `${name} is a variable: write it above the first [[…]] or [table] below [vars].`
  }
  const [nearest] = known
    .map((each) => ({ each, edits: countEdits(name, each) }))
    .filter(({ each, edits }) => edits <= Math.max(1, each.length / 3))
    .toSorted((one, other) => one.edits - other.edits)
  return nearest && `Did you mean ${nearest.each}?`
}

function comparePlaces({ at: one }: LeveledFinding, { at: other }: LeveledFinding): number {
  if (typeof one !== 'object' || typeof other !== 'object')
    return Number(typeof one !== 'object') - Number(typeof other !== 'object')
  return one.file.localeCompare(other.file) || one.line - other.line || one.column - other.column
}
