import type { ConfigError } from '../../config/config-error.ts'
import { VARIABLES } from '../../config/variables.ts'
import { jsonMistake } from '../settings/locate.ts'
import type { Finding } from './finding.ts'

/** What the Worker refuses at start, as findings. @param variables the Worker's */
export function refusals(
  problems: readonly ConfigError[],
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
    const isName = message.includes('expected no such')
    const name = path.at(-1)
    const isVariable = isName && (VARIABLES as readonly unknown[]).includes(name)
    return {
      rule: 'refused',
      message,
      variable,
      path,
      isName,
      ...(isVariable && { hint: `${name} is a variable: write it above the first [[…]] or [table] below [vars].` }),
    }
  })
}
