import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const ROOT = join(import.meta.dirname, '../..')

/** Words of earlier names, for which docs/glossary.md has others. */
const REPLACED = new Set(
  `
  asked asker askers asking beside deed deeds dialect dialects forget forgets forgetting governed heard hears hearsay
  journal journals lapsed newcomer newcomers ruled spend strain tells tier tiers told twin twins
  `
    .trim()
    .split(/\s+/),
)

/** Sources that are written by hand. */
const FILES = listFiles('src', 'lua', 'dashboard')
const TOOLS = listFiles('bench', 'tools')
/** Without this file, which has them as examples. */
const TESTS = listFiles('test').filter((file) => !file.endsWith('vocabulary.test.ts'))

function listFiles(...folders: readonly string[]): readonly string[] {
  return execFileSync('git', ['ls-files', ...folders], { cwd: ROOT, encoding: 'utf8' })
    .split('\n')
    .filter((file) => /\.(?:tsx?|lua)$/.test(file) && !/(?:files|lua)\.ts$/.test(file))
}

test('names in the code use the words of the glossary', () => {
  expect(FILES.length).toBeGreaterThan(200)
  expect(TOOLS.length).toBeGreaterThan(100)
  expect(TESTS.length).toBeGreaterThan(300)
  const found = [...FILES, ...TOOLS, ...TESTS].flatMap((file) =>
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
  ["glob('a/*.ts'); const isTold = 1 /* */", ['isTold']],
  ["fetch('https://a'); const isTold = 1", ['isTold']],
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
  judge keep label limit link list load locate log lower map mark mask match measure merge name normalize note open operate
  parse peek penalize pick prepare protect proxy push put quote raise read receive record reduce refill refuse release
  remove rename render renew repeat replace report require resolve respond revoke rewrite roll round run scale scan
  scope select serve set show sign skip sleep sort split start stream strip subtract suggest sum summarize sweep
  tabulate take throttle track truncate unlink unmap update use verify wait write
  `.split(/\s+/),
)
/** Verbs of functions that only benches and tools have. */
const VERBS_OF_TOOLS = new Set(
  `
  assert attack build bundle capitalize choose consume embed end fail fill flood forward give install launch loop
  play print profile request reset send simulate spread time unpack watch wrap
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
/** What users import and schemas are named for what they make, and what starts the command as in other languages. */
const PUBLIC = new Set(
  'concurrency fixedWindow main memoryStore objectStore oneOf outbound quota redisStore slidingWindow sluice sortedSet tokenBucket'.split(
    ' ',
  ),
)

test.each([
  ['src and dashboard', FILES, []],
  ['bench and tools', TOOLS, [...VERBS_OF_TOOLS]],
])('functions of %s begin with a verb', (_folders, files, moreVerbs) => {
  const found = files
    .filter((file) => /\.tsx?$/.test(file))
    .flatMap((file) =>
      functionsIn(readFileSync(join(ROOT, file), 'utf8'))
        .filter((name) => !isVerbal(name, moreVerbs))
        .map((name) => `${file}: ${name}`),
    )
  expect(found).toEqual([])
})

test('each file opens with a sentence that says what it is for', () => {
  // A comment directly above what is not exported is about that.
  const isOpened = (file: string) =>
    /^(?:#!.*\n)?\/\*\*(?:(?!\*\/)[\s\S])*\*\/\n(?!const|interface|type|function|class)/.test(
      readFileSync(join(ROOT, file), 'utf8'),
    )
  const own = [...FILES, ...TOOLS].filter((file) => /^(?:src|bench|tools)\/(?!.*errors-page).*\.ts$/.test(file))
  expect(own.filter((file) => !isOpened(file))).toEqual([])
})

test('no function of a test is named for what it is a part of', () => {
  const found = TESTS.flatMap((file) =>
    functionsIn(readFileSync(join(ROOT, file), 'utf8'))
      .filter((name) => /[a-z]Of$/.test(name))
      .map((name) => `${file}: ${name}`),
  )
  expect(found).toEqual([])
})

test.each([
  ['function readCookie(text) {', []],
  ['export async function* cookies() {', ['cookies']],
  ['// The function cookies() is gone.', []],
  ['export function toText() { return function asked() {', ['asked']],
  ['const rankOf = ({ name }) => 1', ['rankOf']],
  ["glob('a/*.ts'); const rankOf = () => 1 /* */", ['rankOf']],
  ['const findRank = (name) => 1; const proof = 1', []],
])('a function without a verb is seen: %s', (code, expected) => {
  expect(functionsIn(code).filter((name) => !isVerbal(name))).toEqual(expected)
})

/** Names of functions, except those of components; and of constants that end as a function without a verb would. */
function functionsIn(code: string): string[] {
  return [...removeComments(code).matchAll(/\b(?:function\*? ([a-z]\w*)|const ([a-z]\w*Of) =)/g)].map(
    ([, name, ofName]) => name ?? ofName ?? '',
  )
}

function isVerbal(name: string, moreVerbs: readonly string[] = []): boolean {
  const [first = ''] = wordsOf(name)
  const begins = VERBS.has(first) || PREDICATES.has(first) || FORMS.has(first) || moreVerbs.includes(first)
  return begins || PUBLIC.has(name)
}

/** Texts stay: one like `'config/*.toml'` begins no comment. */
function removeComments(code: string): string {
  return code.replace(/('(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\[\s\S]|[^`\\])*`)|\/\*[\s\S]*?\*\/|\/\/.*/g, '$1')
}

/** Identifiers outside of comments and texts. */
function namesIn(code: string): string[] {
  const bare = removeComments(code)
    .replace(/--.*/g, '')
    .replace(/'[^'\n]*'|`[^`]*`|"[^"\n]*"/g, '')
  return [...bare.matchAll(/[A-Za-z_$][\w$]*/g)].map(([name]) => name)
}

function wordsOf(name: string): string[] {
  return name
    .replace(/([a-z])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[_ ]/)
}
