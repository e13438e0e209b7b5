import type { PolicyChange } from '../../rules/policies.ts'

const SIGNS = { added: '+', removed: '-', changed: '~' } as const

/** A line for each policy, and one for each of its keys. */
export function linesOfChanges(changes: readonly PolicyChange[]): string[] {
  if (changes.length === 0) return ['no policy is different']
  return changes.flatMap(({ policy, change, keys }) => [
    `${SIGNS[change]} ${policy} (${change})`,
    ...keys.map(({ key, before, after }) =>
      change === 'changed' ? `    ${key}: ${before ?? 'none'} → ${after ?? 'none'}` : `    ${key}: ${before ?? after}`,
    ),
  ])
}
