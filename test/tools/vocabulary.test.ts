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

/** Stored names that are read still, and settings that are refused with the new name. */
const KEPT = new Set(['deeds', 'journal', 'dialect', 'tier'])
const READERS = /^src\/(rules\/audit-log|statistics\/metrics|library\/check-options|command\/top\/key-watch)\.ts$/

test('names in the code use the words of the glossary', () => {
  const files = execFileSync('git', ['ls-files', 'src', 'lua', 'dashboard'], { cwd: ROOT, encoding: 'utf8' })
    .split('\n')
    .filter((file) => /\.(?:tsx?|lua)$/.test(file) && !/(?:files|lua)\.ts$/.test(file))
  expect(files.length).toBeGreaterThan(200)
  const found = files.flatMap((file) =>
    namesIn(readFileSync(join(ROOT, file), 'utf8'))
      .filter((name) => wordsOf(name).some((word) => REPLACED.has(word)))
      .filter((name) => !(READERS.test(file) && KEPT.has(name)))
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
