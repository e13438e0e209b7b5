import type { DocumentStore } from '../../src/core/store/documents.ts'
import { changeRules } from '../../src/gateway/admin/change-rules.ts'
import type { AdminContext } from '../../src/gateway/admin/operation.ts'
import type { Rules } from '../../src/gateway/rules/document.ts'

interface Edit {
  readonly nowMs?: number
  readonly expectedVersion?: number
  readonly replacesAll?: boolean
}

/** Edits rules as an operator does, where there is nothing but their documents. */
export async function editRules(
  documents: DocumentStore,
  change: (rules: Rules) => Rules,
  { nowMs = Date.now(), ...options }: Edit = {},
) {
  const context = { rulesEngine: { documents }, env: {}, now: () => nowMs } as unknown as AdminContext
  const { edited } = await changeRules(context, change, { actor: 'test', comment: 'test', ...options }, false)
  return edited
}
