/** Tables by name, of which `Object.keys` and `Object.fromEntries` tell TypeScript too little: a table has no other names. */

/** Every field, optional ones, too: a copy that satisfies it lacks none, not even one that was added since. */
export type Complete<T> = { readonly [Name in keyof T]-?: T[Name] }

export function listNames<Name extends string>(table: Readonly<Record<Name, unknown>>): readonly Name[] {
  return Object.keys(table) as Name[]
}

export function mapNames<Name extends string, Value>(
  names: readonly Name[],
  read: (name: Name) => Value,
): Record<Name, Value> {
  return Object.fromEntries(names.map((name) => [name, read(name)])) as Record<Name, Value>
}
