import type { Tables } from './policy-file.ts'

/** How a policy differs. */
export interface PolicyChange {
  readonly policy: string
  readonly change: 'added' | 'removed' | 'changed'
  readonly keys: readonly {
    readonly key: string
    /** As JSON; null: it is not there. */
    readonly before: string | null
    readonly after: string | null
  }[]
}

/** What becomes different, policy by policy, and those that move last. */
export function policyChanges(before: Tables, after: Tables): readonly PolicyChange[] {
  const [old, made] = [byName(before), byName(after)]
  const changes: PolicyChange[] = []
  for (const name of new Set([...old.keys(), ...made.keys()])) {
    const [was, is] = [old.get(name), made.get(name)]
    const keys = [...new Set([...Object.keys(was ?? {}), ...Object.keys(is ?? {})])]
      .map((key) => ({ key, before: textOf(was?.[key]), after: textOf(is?.[key]) }))
      .filter(({ key, before, after }) => key !== 'name' && before !== after)
    if (!was || !is) changes.push({ policy: name, change: was ? 'removed' : 'added', keys })
    else if (keys.length > 0) changes.push({ policy: name, change: 'changed', keys })
  }
  return changes
}

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

function byName(tables: Tables): ReadonlyMap<string, Readonly<Record<string, unknown>>> {
  return new Map(tables.map((table) => [`${table.name}`, table]))
}

function textOf(value: unknown): string | null {
  return value === undefined ? null : JSON.stringify(value)
}
