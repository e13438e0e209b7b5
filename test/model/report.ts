import type { Exploration } from './explore.ts'

/** One line, and another one for the first violation. */
export function report(name: string, { states, steps, ends, isComplete, violations, first }: Exploration): string {
  const number = (count: number) => count.toLocaleString('en')
  const visited = `${number(states)} states${isComplete ? '' : ' (not all)'}, ${number(steps)} steps, ${number(ends)} ends`
  return `${name}: ${visited}, violations ${number(violations)}${first ? `\n  ${first}` : ''}`
}
