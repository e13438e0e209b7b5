/** The docs as a site, as `npm run site` builds it. */
import { execFile } from 'node:child_process'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, expect, test } from 'vitest'

const ROOT = join(import.meta.dirname, '../../..')
const SITE = join(ROOT, 'dist/site')

beforeAll(async () => {
  await promisify(execFile)(process.execPath, [join(ROOT, 'tools/site.ts')])
})

/** A page as it was built: where its links lead, and what can be led to. */
function readHtml(path: string): { readonly links: readonly string[]; readonly ids: ReadonlySet<string> } {
  const html = readFileSync(join(SITE, path), 'utf8')
  const find = (pattern: RegExp) => [...html.matchAll(pattern)].map(([, value = '']) => value.replaceAll('&amp;', '&'))
  return { links: find(/ (?:href|src)="([^"]*)"/g), ids: new Set(find(/ id="([^"]*)"/g)) }
}

test('each page of the docs is there, and no link is dead', () => {
  const pages = globSync('**/*.html', { cwd: SITE })
  const sources = globSync(['docs/*.md', 'docs/guides/*.md', 'docs/api/**/*.md'], { cwd: ROOT })
  expect(pages).toEqual(expect.arrayContaining(sources.map((path) => path.replace(/md$/, 'html'))))
  const built = new Map(pages.map((path) => [path, readHtml(path)]))
  const dead = [...built].flatMap(([path, { links }]) =>
    links
      .filter((link) => !/^[a-z]+:|^\/\//i.test(link))
      .filter((link) => {
        const { pathname, hash } = new URL(link, `http://site/${path}`)
        const file = decodeURI(pathname.slice(1)) || 'index.html'
        if (!existsSync(join(SITE, file))) return true
        return hash.length > 1 && !built.get(file)?.ids.has(decodeURIComponent(hash.slice(1)))
      })
      .map((link) => `${path}: ${link}`),
  )
  expect(dead).toEqual([])
})

test('the search has an index of its own', () => {
  expect(globSync('assets/**/*localSearchIndex*.js', { cwd: SITE }).length).toBeGreaterThan(0)
})

test('llms.txt lists each page of Markdown, which is published beside it', () => {
  const text = readFileSync(join(SITE, 'llms.txt'), 'utf8')
  const listed = [...text.matchAll(/^- \[.+\]\(\/(.+?)\)/gm)].map(([, path = '']) => path)
  expect(text).toMatch(/^# Sluice\n\n> \S/)
  expect(listed).toEqual(expect.arrayContaining(['README.md', 'docs/testing.md', 'docs/guides/express.md']))
  expect(listed.filter((path) => readFileSync(join(SITE, path), 'utf8') === '')).toEqual([])
})
