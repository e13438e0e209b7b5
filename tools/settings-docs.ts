/**
 * Writes what the tables of variables and of policy keys say into the files that repeat it: `npm run settings`. With
 * `--check`, only says which of them are stale.
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { policyKeys } from '../src/http/config/policy-keys.ts'
import { SECRETS, VARIABLES, variables } from '../src/http/config/variables.ts'
import { renderTable } from './command-page.ts'
import { writeGenerated } from './write-generated.ts'

const ROOT = join(import.meta.dirname, '..')
const WIDTH = 120

/** A variable or a key, as the comment above it in its table explains it. */
interface Setting {
  readonly name: string
  /** Markdown, with links from docs/. */
  readonly doc: string
  /** Markdown. */
  readonly byDefault: string
  /** What stands where its value may: its default, or a value that shows how it is written. */
  readonly example: string
  /** What a deploy button asks; undefined: it does not ask for this one. */
  readonly deploy: string | undefined
}

/** The files, with what the tables say now. */
export async function writeSettings(): Promise<ReadonlyMap<string, string>> {
  const all = await readSettings('variables.ts', VARIABLES, variables)
  const keys = await readSettings('policy-keys.ts', Object.keys(policyKeys), policyKeys)
  const read = (file: string) => readFile(join(ROOT, file), 'utf8')
  const page = between(await read('docs/configuration.md'), 'variables', '<!--', ' -->', tableOf('variable', all))
  const json = JSON.parse(await read('package.json'))
  const asked = all.filter(({ deploy }) => deploy !== undefined)
  json.cloudflare.bindings = Object.fromEntries(asked.map(({ name, deploy }) => [name, { description: deploy }]))
  return new Map([
    ['docs/configuration.md', between(page, 'keys', '<!--', ' -->', tableOf('key', keys))],
    ['wrangler.toml', between(await read('wrangler.toml'), 'variables', '#', '', toToml(all))],
    ['.dev.vars.example', between(await read('.dev.vars.example'), 'variables', '#', '', toDevVars(all))],
    ['package.json', `${JSON.stringify(json, null, 2)}\n`],
  ])
}

/** @param schemas by name, each with its default if it has one */
async function readSettings(
  file: string,
  names: readonly string[],
  schemas: Readonly<Record<string, object>>,
): Promise<readonly Setting[]> {
  const source = await readFile(join(ROOT, 'src/http/config', file), 'utf8')
  return names.map((name) => {
    const [, comment] = new RegExp(`/\\*\\*((?:(?!\\*/)[^])*)\\*/\\n  ${name}: `).exec(source) ?? []
    if (comment === undefined) throw new Error(`src/http/config/${file}: no comment says what ${name} is`)
    const text = comment.replace(/\s*\n\s*\*/g, '').trim()
    const [doc = '', ...tags] = text.split(/ @(?=default |example |deploy )/)
    const tagged = (tag: string) => tags.find((each) => each.startsWith(`${tag} `))?.slice(tag.length + 1)
    const value = (schemas[name] as { readonly default?: unknown }).default
    const byDefault = tagged('default') ?? (value === undefined ? 'none' : `\`${value}\``)
    const [, quoted] = /^`(.*)`$/.exec(byDefault) ?? []
    const example = quoted ?? tagged('example') ?? /e\.g\. `([^`]+)`/.exec(doc)?.[1] ?? ''
    return { name, doc, byDefault, example, deploy: tagged('deploy') }
  })
}

/** @returns the text with other lines between two markers */
function between(text: string, what: string, open: string, close: string, lines: readonly string[]): string {
  const begin = `${open} ${what}: written by \`npm run settings\`${close}\n`
  const end = `${open} end of ${what}${close}\n`
  const [from, to] = [text.indexOf(begin), text.indexOf(end)]
  if (from < 0 || to < from) throw new Error(`no lines between ${begin}and ${end}`)
  return `${text.slice(0, from)}${begin}${lines.map((line) => `${line}\n`).join('')}${text.slice(to)}`
}

function tableOf(title: string, settings: readonly Setting[]): readonly string[] {
  const rows = settings.map(({ name, doc, byDefault }) => [`\`${name}\``, byDefault, doc])
  return ['', renderTable([title, 'default', 'meaning'], rows), '']
}

/** Secrets are told apart: they do not belong into the file. So are policies, which are tables. */
function toToml(settings: readonly Setting[]): readonly string[] {
  const secrets = settings.filter(({ name }) => SECRETS.has(name))
  const others = settings.filter(({ name }) => !SECRETS.has(name) && name !== 'POLICIES')
  return [
    '# Secrets, each set with `wrangler secret put NAME`:',
    ...secrets.flatMap(({ name, doc }) => wrapped(`${name}: ${plain(doc)}`)),
    '',
    '[vars]',
    ...others.flatMap(({ name, doc, example, deploy }) => {
      const value = /^\d+$/.test(example) ? example : JSON.stringify(example)
      return ['', ...wrapped(capital(plain(doc))), `${deploy === undefined ? '# ' : ''}${name} = ${value}`]
    }),
  ]
}

function toDevVars(settings: readonly Setting[]): readonly string[] {
  return settings.flatMap(({ name, doc, example, deploy }) => {
    const isAsked = deploy !== undefined && SECRETS.has(name)
    const value = SECRETS.has(name) ? '' : /[\s#"]/.test(example) ? `'${example}'` : example
    return isAsked ? [...wrapped(capital(plain(doc))), `${name}=`] : [`# ${name}=${value}`]
  })
}

/** Without links, and code in quotes unless it is a name. */
function plain(markdown: string): string {
  return markdown
    .replace(/ \(\[(?:how|why|more|fields|see below)\]\([^)]*\)\)/g, '')
    .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/`([A-Z_]{2,})`/g, '$1')
    .replaceAll('`', '"')
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}

/** Lines of a comment. */
function wrapped(text: string): readonly string[] {
  const lines: string[] = []
  let line = '#'
  for (const word of `${text}.`.split(' ')) {
    if (line.length + 1 + word.length > WIDTH) {
      lines.push(line)
      line = '#'
    }
    line += ` ${word}`
  }
  return [...lines, line]
}

if (import.meta.main) writeGenerated(await writeSettings(), 'settings')
