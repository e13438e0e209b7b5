import { VARIABLES } from './variables.ts'

/**
 * The variable that a name is probably meant to be: one that is a letter or two away from it, or differs only in
 * plural, unit or underscores.
 * @returns undefined for a known name, and for one that is the operator's own
 */
export function meantVariable(name: string): (typeof VARIABLES)[number] | undefined {
  if (!/^[A-Z][A-Z\d_]+$/.test(name) || (VARIABLES as readonly string[]).includes(name)) return undefined
  const bare = stem(name)
  // Short names are a letter away from many: MODE from NODE, CODE and MODEL.
  return VARIABLES.find(
    (variable) => stem(variable).length > 5 && distance(bare, stem(variable)) <= (stem(variable).length < 12 ? 1 : 2),
  )
}

/** Makes POLICY equal POLICIES, and UPSTREAM_TIMEOUT equal UPSTREAM_TIMEOUT_MS. */
function stem(name: string): string {
  return name.replace(/_MS$/, '').replaceAll('_', '').replace(/IES$/, 'Y').replace(/S$/, '')
}

/** Letters to put in, leave out, change or swap with the next (optimal string alignment). */
export function distance(one: string, other: string): number {
  let before: number[] = []
  let last = Array.from({ length: other.length + 1 }, (_, index) => index)
  for (let i = 1; i <= one.length; i++) {
    const row = [i]
    for (let j = 1; j <= other.length; j++) {
      const isSwap = i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1]
      const changed = (last[j - 1] ?? 0) + Number(one[i - 1] !== other[j - 1])
      const moved = isSwap ? (before[j - 2] ?? 0) + 1 : changed
      row.push(Math.min(changed, moved, (last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1))
    }
    before = last
    last = row
  }
  return last[other.length] ?? 0
}
