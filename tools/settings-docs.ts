/**
 * Writes what the tables of variables and of policy keys say into the files that repeat it: `npm run settings`. With
 * `--check`, only says which of them are stale.
 */
import type { Readers } from '../src/core/options/readers.ts'
import { policyKeys } from '../src/http/config/policy-keys.ts'
import { SECRETS, variables } from '../src/http/config/variables.ts'
import { renderTable } from './markdown.ts'
import { readSource, writeGenerated } from './write-generated.ts'

/** A variable or a key, as the comment above it in its table explains it. */
export interface Setting {
  readonly name: string
  /** Markdown, with links from docs/. */
  readonly doc: string
  /** Markdown. */
  readonly byDefault: string
  /** What stands where its value may: its default, or a value that shows how it is written. */
  readonly example: string
  /** What a deploy button asks; undefined: it does not ask for this one. */
  readonly deploy: string | undefined
  /** Its doc in plain text. */
  readonly sentence: string
}

export function explainVariables(): readonly Setting[] {
  return readSettings('variables.ts', variables)
}

export function explainPolicyKeys(): readonly Setting[] {
  return readSettings('policy-keys.ts', policyKeys)
}

/** The files, with what the tables say now. */
export function renderSettings(): ReadonlyMap<string, string> {
  const all = explainVariables()
  const keys = explainPolicyKeys()
  const json = JSON.parse(readSource('package.json'))
  const inDeploy = all.filter(({ deploy }) => deploy !== undefined)
  json.cloudflare.bindings = Object.fromEntries(inDeploy.map(({ name, deploy }) => [name, { description: deploy }]))
  return new Map([
    ['docs/variables.md', replaceTable('docs/variables.md', 'variables', renderSettingsTable('variable', all))],
    ['docs/policies.md', replaceTable('docs/policies.md', 'keys', renderSettingsTable('key', keys))],
    ['wrangler.toml', replaceBetween(readSource('wrangler.toml'), 'variables', '#', '', toToml(all))],
    ['.dev.vars.example', replaceBetween(readSource('.dev.vars.example'), 'variables', '#', '', toDevVars(all))],
    ['package.json', `${JSON.stringify(json, null, 2)}\n`],
    ['src/command/new-project.json', `${JSON.stringify(renderNewProject(all), null, 2)}\n`],
  ])
}

/** What `sluice init` writes of the variables, and of this repository's own wrangler.toml. */
function renderNewProject(all: readonly Setting[]) {
  const [, compatibilityDate] = /^compatibility_date = "(.*)"$/m.exec(readSource('wrangler.toml')) ?? []
  return { compatibilityDate, wrangler: toToml(all).join('\n'), devVars: toDevVars(all).join('\n') }
}

function readSettings(file: string, readers: Readers): readonly Setting[] {
  const source = readSource(`src/http/config/${file}`)
  return Object.entries(readers).map(([name, { byDefault: value }]) => {
    const [, comment] = new RegExp(`/\\*\\*((?:(?!\\*/)[^])*)\\*/\\n  ${name}: `).exec(source) ?? []
    if (comment === undefined) throw new Error(`src/http/config/${file}: no comment says what ${name} is`)
    const text = comment.replace(/\s*\n\s*\*/g, '').trim()
    const [doc = '', ...tags] = text.split(/ @(?=default |example |deploy )/)
    const findTag = (tag: string) => tags.find((each) => each.startsWith(`${tag} `))?.slice(tag.length + 1)
    const byDefault = findTag('default') ?? (value === undefined ? 'none' : `\`${value}\``)
    const [, quoted] = /^`(.*)`$/.exec(byDefault) ?? []
    const example = quoted ?? findTag('example') ?? /e\.g\. `([^`]+)`/.exec(doc)?.[1] ?? ''
    return { name, doc, byDefault, example, deploy: findTag('deploy'), sentence: `${capitalize(toPlain(doc))}.` }
  })
}

/** @returns the page with another table between two markers */
function replaceTable(page: string, what: string, lines: readonly string[]): string {
  return replaceBetween(readSource(page), what, '<!--', ' -->', lines)
}

/** @returns the text with other lines between two markers */
function replaceBetween(text: string, what: string, open: string, close: string, lines: readonly string[]): string {
  const begin = `${open} ${what}: written by \`npm run settings\`${close}\n`
  const end = `${open} end of ${what}${close}\n`
  const [from, to] = [text.indexOf(begin), text.indexOf(end)]
  if (from < 0 || to < from) throw new Error(`no lines between ${begin}and ${end}`)
  return `${text.slice(0, from)}${begin}${lines.map((line) => `${line}\n`).join('')}${text.slice(to)}`
}

function renderSettingsTable(title: string, settings: readonly Setting[]): readonly string[] {
  const rows = settings.map(({ name, doc, byDefault }) => [`\`${name}\``, byDefault, doc])
  return ['', renderTable([title, 'default', 'meaning'], rows), '']
}

/** Secrets have a list of their own: they do not belong into the file. Nor do policies, which are tables. */
function toToml(settings: readonly Setting[]): readonly string[] {
  const secrets = settings.filter(({ name }) => SECRETS.has(name))
  const others = settings.filter(({ name }) => !SECRETS.has(name) && name !== 'POLICIES')
  return [
    '# Secrets, each set with `wrangler secret put NAME`:',
    ...secrets.flatMap(({ name, doc }) => wrap(`${name}: ${toPlain(doc)}.`)),
    '',
    '[vars]',
    ...others.flatMap(({ name, sentence, example, deploy }) => {
      const value = /^\d+$/.test(example) ? example : JSON.stringify(example)
      return ['', ...wrap(sentence), `${deploy === undefined ? '# ' : ''}${name} = ${value}`]
    }),
  ]
}

function toDevVars(settings: readonly Setting[]): readonly string[] {
  return settings.flatMap(({ name, sentence, example, deploy }) => {
    const isInDeploy = deploy !== undefined && SECRETS.has(name)
    const value = SECRETS.has(name) ? '' : /[\s#"]/.test(example) ? `'${example}'` : example
    return isInDeploy ? [...wrap(sentence), `${name}=`] : [`# ${name}=${value}`]
  })
}

/** Without links, and code in quotes unless it is a name. */
function toPlain(markdown: string): string {
  return markdown
    .replace(/ \(\[(?:how|why|more|fields|see below)\]\([^)]*\)\)/g, '')
    .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/`([A-Z_]{2,})`/g, '$1')
    .replaceAll('`', '"')
}

function capitalize(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}

/** Splits a sentence into the lines of a comment, of at most 120 characters. */
function wrap(text: string): readonly string[] {
  return (text.match(/\S.{0,117}(?= |$)/g) ?? []).map((line) => `# ${line}`)
}

if (import.meta.main) writeGenerated(renderSettings(), 'settings')
