import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const ROOT = join(import.meta.dirname, '../..')

/** Words of earlier names, for which docs/glossary.md has others. */
const REPLACED = new Set(
  'told tells asked asking beside governed ruled deed journal hearsay hears heard strain lapsed newcomer dialect tier tiers twin forget spend'.split(
    ' ',
  ),
)

/** Sources that are written by hand. */
const FILES = execFileSync('git', ['ls-files', 'src', 'lua', 'dashboard'], { cwd: ROOT, encoding: 'utf8' })
  .split('\n')
  .filter((file) => /\.(?:tsx?|lua)$/.test(file) && !/(?:files|lua)\.ts$/.test(file))

test('names in the code use the words of the glossary', () => {
  expect(FILES.length).toBeGreaterThan(200)
  const found = FILES.flatMap((file) =>
    namesIn(readFileSync(join(ROOT, file), 'utf8'))
      .filter((name) => wordsOf(name).some((word) => REPLACED.has(word)))
      .map((name) => `${file}: ${name}`),
  )
  expect(found).toEqual([])
})

test.each([
  ['const isTold = 1', ['isTold']],
  ["const text = 'told' // told", []],
  ['local asked_units = 1', ['asked_units']],
])('a replaced word is seen in names alone: %s', (code, expected) => {
  expect(namesIn(code).filter((name) => wordsOf(name).some((word) => REPLACED.has(word)))).toEqual(expected)
})

/** One for each thing that functions do: before another one is added, look for the one that is there. */
const VERBS = new Set(
  `
  adapt add admit advance age allow answer append apply ask authorize await call canonicalize change check clean close
  collect combine compare compile compose compute connect continue copy count create cut decide declare decode
  decorate define delete describe diff digest drain draw drop edit encode escape estimate evaluate expire explain
  extrapolate fetch find fold follow for format freeze generate get group guard hash hold ignore index inspect join
  judge keep label limit link list load locate log lower map mark mask match merge name normalize note open operate
  parse peek penalize pick prepare protect proxy push put quote raise read receive record reduce refill refuse release
  remove rename render renew repeat replace report require resolve respond revoke rewrite roll round run scale scan
  scope select serve set show sign skip sleep sort split start stream strip subtract suggest sum summarize sweep
  tabulate take throttle track truncate unlink unmap update use verify wait write
  `.split(/\s+/),
)
/** They begin the names of functions that answer yes or no. */
const PREDICATES = new Set(
  'applies can counts covers detects has holds implies is lacks matches may must prefers refuses remembers signals uses was'.split(
    ' ',
  ),
)
/** They begin the names of functions that give a thing in another form. */
const FORMS = new Set(['to', 'from', 'with', 'without'])
/** What users import is named for what it makes, and what starts the command as in other languages. */
const PUBLIC = new Set(
  'concurrency fixedWindow main memoryStore outbound quota redisStore slidingWindow sluice sortedSet tokenBucket'.split(
    ' ',
  ),
)

test('functions begin with a verb', () => {
  const found = FILES.filter((file) => /\.tsx?$/.test(file)).flatMap((file) =>
    functionsIn(readFileSync(join(ROOT, file), 'utf8'))
      .filter((name) => !isVerbal(name))
      .map((name) => `${file}: ${name}`),
  )
  expect(found).toEqual([])
})

test.each([
  ['function readCookie(text) {', []],
  ['export async function* cookies() {', ['cookies']],
  ['// The function cookies() is gone.', []],
  ['export function toText() { return function asked() {', ['asked']],
])('a function without a verb is seen: %s', (code, expected) => {
  expect(functionsIn(code).filter((name) => !isVerbal(name))).toEqual(expected)
})

/** Names of functions, except those of components. */
function functionsIn(code: string): string[] {
  const bare = code.replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, '')
  return [...bare.matchAll(/\bfunction\*? ([a-z]\w*)/g)].map(([, name = '']) => name)
}

function isVerbal(name: string): boolean {
  const [first = ''] = wordsOf(name)
  return VERBS.has(first) || PREDICATES.has(first) || FORMS.has(first) || PUBLIC.has(name)
}

/** Identifiers outside of comments and texts. */
function namesIn(code: string): string[] {
  const bare = code.replace(/\/\*[\s\S]*?\*\/|\/\/.*|--.*/g, '').replace(/'[^'\n]*'|`[^`]*`|"[^"\n]*"/g, '')
  return [...bare.matchAll(/[A-Za-z_$][\w$]*/g)].map(([name]) => name)
}

function wordsOf(name: string): string[] {
  return name
    .replace(/([a-z])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[_ ]/)
}
