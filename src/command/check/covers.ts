import type { Pattern } from '../../model/policy.ts'

/** Every request. */
export const EVERYTHING: Pattern = { method: '*', path: '/*' }

/**
 * Whether every request that matches the other pattern matches this one, too. If in doubt, it does not.
 * @param ignoresCase whether the other one matches whatever the case of a path
 */
export function covers(pattern: Pattern, other: Pattern, ignoresCase = false): boolean {
  const isOfMethod =
    pattern.method === '*' || pattern.method === other.method || (pattern.method === 'GET' && other.method === 'HEAD')
  if (!isOfMethod) return false
  const [these, isOpen] = splitSegments(pattern)
  const [those, isOtherOpen] = splitSegments(other)
  const isLongEnough = isOpen ? those.length >= these.length : !isOtherOpen && those.length === these.length
  return isLongEnough && these.every((segment, at) => coversSegment(segment, those[at] ?? '', ignoresCase))
}

function splitSegments({ path }: Pattern): readonly [readonly string[], boolean] {
  const segments = path.split('/').slice(1)
  return segments.at(-1) === '*' ? [segments.slice(0, -1), true] : [segments, false]
}

function coversSegment(segment: string, other: string, ignoresCase: boolean): boolean {
  if (segment === '*' || segment.startsWith(':')) return true
  if (ignoresCase || other === '*' || other.startsWith(':')) return false
  if (segment === other) return true
  return segment.endsWith('.*') && (other === segment.slice(0, -2) || other.startsWith(segment.slice(0, -1)))
}

export function patternText({ method, path }: Pattern): string {
  return `${method} ${path}`
}
