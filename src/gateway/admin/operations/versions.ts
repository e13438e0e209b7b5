/** Operations on versions of the rules: their list, and a rollback. */
import * as v from 'valibot'
import { OptionError } from '../../../core/options/option-error.ts'
import { KEPT_VERSIONS, type StoredDocument } from '../../../core/store/documents.ts'
import { InputError, OperationError } from '../../api/operation.ts'
import { describe } from '../../api/schema.ts'
import { NO_RULES, parseRules, type Rules } from '../../rules/document.ts'
import { dropEnded, SECTIONS, withSection } from '../../rules/edit-rules.ts'
import { checkRules } from '../../rules/rule-policies.ts'
import * as answers from '../answers.ts'
import { changeRules, note, requireRules } from '../change-rules.ts'
import { type AdminContext, defineOperation } from '../operation.ts'
import { toDocument } from './rules.ts'

export const versions = defineOperation({
  path: '/versions',
  summary: 'The versions of the rules that are kept, newest first',
  answer: answers.versions,
  async run(context) {
    const history = await requireRules(context).documents.readHistory()
    return { versions: [...history] }
  },
})

export const version = defineOperation({
  path: '/version',
  summary: 'One version',
  query: v.strictObject({
    version: v.pipe(v.string('a number'), v.regex(/^[1-9]\d{0,14}$/, 'a number'), v.transform(Number)),
  }),
  answer: answers.version,
  async run(context, { version }) {
    const { text, ...revision } = await readKept(version, context)
    return { ...revision, rules: toDocument(parseRules(text)) }
  },
})

export const rollback = defineOperation({
  path: '/rollback',
  summary: 'Restore the policies, another section or all of an older version of the rules',
  body: v.strictObject({
    version: describe(
      v.pipe(v.number(), v.integer(), v.minValue(0)),
      'The number of a version; 0: no rules. Where the store has lost them, that of those still enforced, too.',
    ),
    section: v.optional(describe(v.picklist([...SECTIONS, 'all']), 'What to restore.'), 'policies'),
    ...note,
  }),
  answer: answers.edited,
  async run(context, { version, section, ...note }) {
    const old = version === 0 ? NO_RULES : await findVersion(version, context)
    const change = (rules: Rules) => {
      try {
        const restored = dropEnded(withSection(rules, old, section), context.now())
        checkRules(restored, context.env)
        return restored
      } catch (error) {
        if (!(error instanceof OptionError)) throw error
        throw new InputError(['version'], `expected rules that fit the Worker’s variables, but ${error.message}`)
      }
    }
    const comment = note.comment || `${section} back to version ${version}`
    const how = { ...note, comment, replacesAll: section === 'all' }
    return (await changeRules(context, change, how, false)).edited
  },
})

/** A version that the store has lost may still be enforced here. */
async function findVersion(version: number, context: AdminContext): Promise<Rules> {
  const active = await requireRules(context).look()
  if (active.kind === 'lost' && active.version === version) return active.rules
  return parseRules((await readKept(version, context)).text)
}

async function readKept(version: number, context: AdminContext): Promise<StoredDocument> {
  const found = await requireRules(context).documents.readVersion(version)
  if (found) return found
  const detail = `Version ${version} is not stored: only the last ${KEPT_VERSIONS} are.`
  throw new OperationError('version_not_found', 404, detail)
}
