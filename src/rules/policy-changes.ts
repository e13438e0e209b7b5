/** Policies as they are written, in POLICIES and in the document. */
export type Tables = readonly Readonly<Record<string, unknown>>[]

/** How a policy differs. */
export interface PolicyChange {
  readonly policy: string
  readonly change: 'added' | 'removed' | 'changed'
  /** Of its table. */
  readonly keys: readonly {
    readonly key: string
    /** As JSON; null: it is not there. */
    readonly before: string | null
    readonly after: string | null
  }[]
}

/** What becomes different, policy by policy, in the order in which they stand before, and then those that are new. */
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

function byName(tables: Tables): ReadonlyMap<string, Readonly<Record<string, unknown>>> {
  return new Map(tables.map((table) => [`${table.name}`, table]))
}

function textOf(value: unknown): string | null {
  return value === undefined ? null : JSON.stringify(value)
}
