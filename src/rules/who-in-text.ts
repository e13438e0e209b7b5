/**
 * Who is meant by a name and a value that somebody wrote, as the body of a block, an allow or an override has it: one
 * caller; or all whose value is like one with a `*`, of what may be named in part.
 */
export function whoNamed(kind: 'header' | 'query' | 'claim', name: string, value: unknown): object {
  const isPattern = kind !== 'query' && typeof value === 'string' && value.includes('*')
  if (!isPattern) return { [kind]: { [name]: value } }
  return { by: `${kind}:${kind === 'header' ? name.toLowerCase() : name}`, value }
}
