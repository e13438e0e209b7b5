import type { Environment } from '../config/load-config.ts'
import type { Rules } from './document.ts'
import type { PolicyList } from './policies.ts'
import type { Tables } from './policy-changes.ts'

/** The tables of POLICIES, as they were deployed. */
export function deployedTables({ POLICIES: tables }: Environment): Tables {
  return (typeof tables === 'string' && tables !== '' ? JSON.parse(tables) : tables || []) as Tables
}

/** Those that hold by the rules, or of a shadow. @param deployed what holds without rules */
export function tablesOf({ policies, shadow }: Rules, list: PolicyList, deployed: Tables): Tables {
  return list === 'shadow' ? (shadow ?? []) : (policies ?? deployed)
}
