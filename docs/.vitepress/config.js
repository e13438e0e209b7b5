/** The docs as a site: the Markdown of the repository as it is, with a search of its own, and llms.txt. */
import { cp, readFile, writeFile } from 'node:fs/promises'
import { join, posix } from 'node:path'
import { slug } from 'github-slugger'
import { defineConfig } from 'vitepress'

const ROOT = join(import.meta.dirname, '../..')
const DESCRIPTION = 'An exact, serverless rate limiter for HTTP APIs: gateway, middleware, library.'

/** Files beside the pages to which pages link, such as configurations: they are published as they are. */
const linked = new Set()

/** The list of pages at the end of README, by heading. */
const README = await readFile(join(ROOT, 'README.md'), 'utf8')
const SECTIONS = [...README.matchAll(/^- \*\*(.+):\*\*((?:.*\n)(?: {2}.*\n)*)/gm)]
  .filter(([, , links]) => links.includes('](docs/'))
  .map(([, title, links]) => ({
    text: title,
    items: [...links.matchAll(/\[([^\]]+)\]\(([\w/.-]+)\.md\)/g)].map(([, text, path]) => ({
      text: text.replaceAll('`', '').replace(/^./, (first) => first.toUpperCase()),
      link: `/${path}`,
    })),
  }))
const IN_DETAIL = {
  text: 'In detail',
  items: [
    { text: 'Figures of performance', link: '/bench/results/performance' },
    { text: 'Figures at scale', link: '/bench/results/scale' },
    { text: 'Figures of outbound calls', link: '/bench/results/outbound' },
    { text: 'How the stores work', link: '/docs/how-stores-work' },
    { text: 'Architecture', link: '/docs/architecture' },
    { text: 'Glossary', link: '/docs/glossary' },
  ],
}

export default defineConfig({
  title: 'Sluice',
  description: DESCRIPTION,
  srcDir: '..',
  outDir: '../dist/site',
  cacheDir: '.vitepress/node_modules/.cache',
  srcExclude: ['**/node_modules/**', '{build,dist,lib,src,test,tools,lua,dashboard,ops,bench/!(results)}/**'],
  rewrites: { 'README.md': 'index.md' },
  head: [['link', { rel: 'alternate', type: 'text/plain', title: 'llms.txt', href: '/llms.txt' }]],
  markdown: {
    // Anchors are GitHub's, by which the pages link to each other.
    anchor: { slugify: slug },
    config(md) {
      const renderLink = md.renderer.rules.link_open
      md.renderer.rules.link_open = (tokens, index, options, env, self) => {
        const token = tokens[index]
        const href = token.attrGet('href') ?? ''
        const [path, anchor] = href.split('#')
        if (path === '' || /^[a-z]+:/i.test(path)) return renderLink(tokens, index, options, env, self)
        const target = posix.join(posix.dirname(env.relativePath), path)
        if (target === 'README.md') token.attrSet('href', `/index.md${anchor ? `#${anchor}` : ''}`)
        if (target.endsWith('.md')) return renderLink(tokens, index, options, env, self)
        linked.add(target)
        token.attrSet('href', `/${target}`)
        token.attrSet('target', '_self')
        return self.renderToken(tokens, index, options)
      }
    },
  },
  vite: { plugins: [{ name: 'vue-of-this-folder', enforce: 'pre', resolveId: resolveVue }] },
  themeConfig: {
    search: { provider: 'local' },
    sidebar: [...SECTIONS, IN_DETAIL],
    outline: [2, 3],
  },
  async buildEnd({ outDir, pages }) {
    for (const file of [...linked, ...pages]) await cp(join(ROOT, file), join(outDir, file), { recursive: true })
    await writeFile(join(outDir, 'llms.txt'), await renderLlmsTxt(pages))
  },
})

/** Finds Vue for pages, which lie outside of this folder. The server's part is loaded by Node, from here. */
async function resolveVue(source, _importer, { ssr }) {
  if (!/^vue(?:\/server-renderer)?$/.test(source)) return
  return ssr
    ? { id: source, external: true }
    : this.resolve(source, join(import.meta.dirname, 'config.js'), { skipSelf: true })
}

/** Lists the pages for programs that read them, as https://llmstxt.org says: each with its first sentence. */
async function renderLlmsTxt(pages) {
  const lines = pages.toSorted().map(async (page) => {
    const text = await readFile(join(ROOT, page), 'utf8')
    const title = /^# (.+)$/m.exec(text)?.[1] ?? page
    const [first = ''] = text.slice(text.indexOf('\n', text.indexOf('# '))).match(/^[A-Z`[].*?[.:](?=\s|$)/m) ?? []
    const plain = first.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    return `- [${title.replaceAll('`', '')}](/${page})${plain ? `: ${plain}` : ''}`
  })
  return `# Sluice\n\n> ${DESCRIPTION}\n\n## Pages\n\n${(await Promise.all(lines)).join('\n')}\n`
}
