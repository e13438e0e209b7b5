import type { DocumentStore, StoredDocument } from '../../src/core/store/documents.ts'
import { changeRules } from '../../src/gateway/admin/change-rules.ts'
import type { AdminContext } from '../../src/gateway/admin/operation.ts'
import { readActiveRules } from '../../src/gateway/rules/active-rules.ts'
import { parseRules, type Rules } from '../../src/gateway/rules/document.ts'

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
  // An isolate that knows of no rules but those in the store.
  const look = () => readActiveRules(undefined, { policies: [] })
  const context = { rulesEngine: { documents, look }, env: {}, now: () => nowMs } as unknown as AdminContext
  const { edited } = await changeRules(context, change, { actor: 'test', comment: 'test', ...options }, false)
  return edited
}

/** Without a known version, there is always an answer. */
export async function readCurrentRules(documents: DocumentStore) {
  const { text, ...revision } = (await documents.read()) as StoredDocument
  return { ...revision, rules: parseRules(text) }
}
