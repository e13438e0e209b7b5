import { formatNumber } from '../../support/report.ts'
import type { Exploration } from './explore.ts'

/** One line, and another one for the first violation. */
export function report(name: string, { states, steps, ends, isComplete, violations, first }: Exploration): string {
  const visited = `${formatNumber(states)} states, ${formatNumber(steps)} transitions, ${formatNumber(ends)} ends`
  const extent = isComplete ? 'complete' : 'not complete'
  return `${name}: ${visited}, ${extent}, violations ${formatNumber(violations)}${first ? `\n  ${first}` : ''}`
}
