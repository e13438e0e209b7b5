import type { RequestPolicy } from '../../model/policy.ts'
import type { Settings } from '../settings/settings.ts'
import type { Finding } from './finding.ts'

/** Where a policy is written: its table, or RATE_LIMITS. @param key in its table */
export function policyPlace(
  { variables }: Settings,
  { name }: RequestPolicy,
  key?: string,
): Pick<Finding, 'variable' | 'path'> {
  const index = tablesIn(variables.POLICIES).findIndex((table) => table.name === name)
  if (index < 0) return { variable: 'RATE_LIMITS' }
  return { variable: 'POLICIES', path: key === undefined ? [index, 'name'] : [index, key] }
}

function tablesIn(value: unknown): readonly { readonly name?: unknown }[] {
  if (typeof value !== 'string') return Array.isArray(value) ? value : []
  try {
    return JSON.parse(value)
  } catch {
    return []
  }
}
