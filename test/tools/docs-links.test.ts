import { existsSync, globSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { dirname, join, relative, resolve } from 'node:path'
import { expect, test } from 'vitest'
import { readPage } from '../support/markdown.ts'

const ROOT = join(import.meta.dirname, '../..')
const PATHS = globSync(['*.md', 'docs/**/*.md', 'examples/**/*.md', 'bench/results/*.md'], {
  cwd: ROOT,
  exclude: (path) => path.split('/').includes('node_modules'),
}).toSorted()

/** Links that lead to something in the repository, with what is wrong with each; undefined if nothing is. */
async function followed(path: string): Promise<{ link: string; target: string; problem: string | undefined }[]> {
  const { links } = await readPage(join(ROOT, path))
  const own = links.filter((link) => !/^[a-z][a-z\d+.-]*:/i.test(link))
  return Promise.all(
    own.map(async (link) => {
      const [file = '', anchor] = decodeURI(link).split('#')
      const target = file === '' ? join(ROOT, path) : resolve(ROOT, dirname(path), file)
      return { link, target: relative(ROOT, target), problem: await readProblem(target, anchor) }
    }),
  )
}

async function readProblem(target: string, anchor: string | undefined): Promise<string | undefined> {
  if (relative(ROOT, target).startsWith('..')) return 'outside of the repository'
  if (!existsSync(target)) return 'no such file'
  if (anchor === undefined) return undefined
  return target.endsWith('.md') && (await readPage(target)).anchors.has(anchor) ? undefined : 'no such anchor'
}

test.each(PATHS)('links in %s lead to what is there', async (path) => {
  const broken = (await followed(path)).filter(({ problem }) => problem !== undefined)
  expect(broken.map(({ link, problem }) => `${link}: ${problem}`)).toEqual([])
})

test.each(PATHS)('files that %s names are there', async (path) => {
  const { codeInLine } = await readPage(join(ROOT, path))
  const named = codeInLine.filter((text) => /^(?:src|lua|test|tools|bench|docs|examples)\/[\w./-]+$/.test(text))
  // Of tests, the name is enough.
  const isThere = (name: string) => ['', '.test.ts'].some((ending) => existsSync(join(ROOT, name + ending)))
  expect(named.filter((name) => !isThere(name))).toEqual([])
})

test('each row of the threat model names tests and commands that are there', async () => {
  const page = await readFile(join(ROOT, 'docs/threat-model.md'), 'utf8')
  const { scripts } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))
  const rows = page.split('\n').filter((line) => line.startsWith('| '))
  const isThere = (name: string) => {
    const [, script] = /^npm run (\S+)/.exec(name) ?? []
    if (script !== undefined) return Object.hasOwn(scripts, script)
    const path = join(ROOT, name.startsWith('test/') ? name : `test/e2e/threats/${name}`)
    return [path, `${path}.test.ts`].some(existsSync)
  }
  const unshown = rows.slice(2).filter((row) => {
    const names = [...(row.split(/(?<!\\)\|/).at(-2) ?? '').matchAll(/`([^`]+)`/g)].map(([, name = '']) => name)
    return names.length === 0 || !names.every(isThere)
  })
  expect(rows.length).toBeGreaterThan(50)
  expect(unshown).toEqual([])
})

test('README leads to every page', async () => {
  const reached = new Set(['README.md'])
  for (const path of reached) {
    if (!PATHS.includes(path)) continue
    for (const { target } of await followed(path)) reached.add(target)
  }
  expect(PATHS.filter((path) => !reached.has(path))).toEqual([])
})
