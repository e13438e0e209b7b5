import { globSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const ROOT = join(import.meta.dirname, '../..')
const PATHS = globSync(['*.md', 'docs/*.md', 'docs/guides/*.md', 'examples/*/README.md'], { cwd: ROOT }).toSorted()

/** Words that are spelled otherwise in American English. */
const BRITISH =
  /\b(?:behaviours?|colours?|cancell(?:ed|ing)|honours?|neighbours?|cent(?:re|res)|defences?|catalogues?|analys(?:e|ed|es)|(?:recogn|organ|normal|optim|serial|summar|minim|maxim|author|initial|util)is(?:e|ed|es|ing)|modelled|labelled|signalled|grey|whilst|for ever)\b/i

test.each(PATHS)('%s is in American spelling', async (path) => {
  const lines = (await readFile(join(ROOT, path), 'utf8')).split('\n')
  expect(lines.filter((line) => BRITISH.test(line))).toEqual([])
})
