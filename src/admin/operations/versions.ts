import * as v from 'valibot'
import { OptionError } from '../../config/option-error.ts'
import type { Problem } from '../../http/problem.ts'
import { parseRules, type Rules } from '../../rules/document.ts'
import { rollBackRules } from '../../rules/editor.ts'
import { SECTIONS } from '../../rules/edits.ts'
import { checkRules } from '../../rules/policies.ts'
import { edited, note, problemOfRules, rulesOrProblem, toldOf, writtenOf } from '../change-rules.ts'
import { badInput, defineOperation, OperationError } from '../operation.ts'
import { document, documentOf, revision } from './rules.ts'

const number = v.pipe(v.number(), v.integer(), v.minValue(1))

export const versions = defineOperation({
  method: 'GET',
  path: '/versions',
  summary: 'The versions of the rules that are kept, newest first',
  answer: v.strictObject({ versions: v.array(v.strictObject(revision)) }),
  async run(operated) {
    const history = await rulesOrProblem(operated).documents.history()
    return { versions: history.map(({ version, id, atMs, by, why }) => ({ version, id, atMs, by, why })) }
  },
})

export const version = defineOperation({
  method: 'GET',
  path: '/version',
  summary: 'One of them',
  query: v.strictObject({
    version: v.pipe(v.string('a number'), v.regex(/^[1-9]\d{0,14}$/, 'a number'), v.transform(Number)),
  }),
  answer: v.strictObject({ ...revision, rules: document }),
  async run(operated, { query }) {
    const found = await rulesOrProblem(operated).documents.readVersion(query.version)
    if (!found) throw new OperationError(notKept(query.version))
    const { text, version, id, atMs, by, why } = found
    return { version, id, atMs, by, why, rules: documentOf(parseRules(text)) }
  },
})

export const rollback = defineOperation({
  method: 'POST',
  path: '/rollback',
  summary: 'Make the policies of an older version of the rules hold again, another section of it, or all',
  body: v.strictObject({
    version: number,
    section: v.optional(
      v.pipe(
        v.picklist([...SECTIONS, 'all']),
        v.description('What becomes as it was in that version; the rest stays as it is now.'),
      ),
      'policies',
    ),
    ...note,
  }),
  answer: edited,
  async run(operated, { body: { version, section, by, why, ...expected } }) {
    const { documents } = rulesOrProblem(operated)
    const check = (rules: Rules) => checkRules(rules, operated.env)
    const words = why || `${section} back to version ${version}`
    const what = { section, nowMs: operated.now() }
    try {
      const edited = await rollBackRules(documents, version, what, { by, why: words }, { ...expected, check })
      if (edited.kind === 'unknown-version') throw new OperationError(notKept(version))
      return toldOf(writtenOf(edited))
    } catch (error) {
      if (!(error instanceof OptionError)) throw error
      const { detail } = problemOfRules(error)
      throw new OperationError(badInput('version', `rules that fit the Worker’s variables, but ${detail}`))
    }
  },
})

function notKept(version: number): Problem {
  return { status: 404, title: 'Not Found', detail: `Version ${version} is not kept.` }
}
