import type { Exploration } from './explore.ts'

/** One line, and another one for the first violation. */
export function report(name: string, { states, steps, ends, isComplete, violations, first }: Exploration): string {
  const number = (count: number) => count.toLocaleString('en')
  const visited = `${number(states)} states, ${number(steps)} transitions, ${number(ends)} ends`
  const extent = isComplete ? 'complete' : 'not complete'
  return `${name}: ${visited}, ${extent}, violations ${number(violations)}${first ? `\n  ${first}` : ''}`
}
