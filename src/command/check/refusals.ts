import type { OptionError } from '../../config/option-error.ts'
import { distance, VARIABLES } from '../../config/variables.ts'
import { jsonMistake } from '../settings/locate.ts'
import type { Finding } from './finding.ts'

/** What the Worker refuses at start, as findings. @param variables the Worker's */
export function refusals(
  problems: readonly OptionError[],
  variables: Readonly<Record<string, unknown>>,
): readonly Finding[] {
  return problems.map((problem): Finding => {
    const { variable, path, message } = problem
    const value = variables[variable]
    const mistake =
      variable === 'POLICIES' && path.length === 0 && typeof value === 'string' ? jsonMistake(value) : undefined
    if (mistake) {
      return {
        rule: 'json',
        message: `POLICIES: JSON that cannot be read: ${mistake.what}`,
        variable,
        offset: mistake.offset,
      }
    }
    const [, known] = /: expected no such \w+ \(but ([^)]*)\)/.exec(message) ?? []
    const hint = known === undefined ? undefined : hintFor(`${path.at(-1) ?? ''}`, known.split(', '))
    return { rule: 'refused', message, variable, path, isName: known !== undefined, ...(hint && { hint }) }
  })
}

/** For a name that is none of those known. */
function hintFor(name: string, known: readonly string[]): string | undefined {
  if ((VARIABLES as readonly string[]).includes(name)) {
    return `${name} is a variable: write it above the first [[…]] or [table] below [vars].`
  }
  const [nearest] = known
    .map((each) => ({ each, letters: distance(name, each) }))
    .filter(({ each, letters }) => letters <= Math.max(1, each.length / 3))
    .toSorted((one, other) => one.letters - other.letters)
  return nearest && `Did you mean ${nearest.each}?`
}
