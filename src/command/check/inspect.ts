/** Inspects a whole configuration: all settings, then what the policies mean together. */
import type { OptionError } from '../../core/options/option-error.ts'
import { findProblems } from '../../http/config/all-problems.ts'
import { countEdits, VARIABLES } from '../../http/config/variables.ts'
import { locate } from '../settings/locate.ts'
import type { Settings } from '../settings/settings.ts'
import { findJsonMistake } from '../settings/wrangler-file.ts'
import { readEnvironment } from '../worker-config.ts'
import { CODES, type Finding, type Level } from './finding.ts'
import { findPolicyMistakes } from './policy-mistakes.ts'
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
