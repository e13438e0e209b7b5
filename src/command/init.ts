/** `sluice init`: a gateway in a project of its own. */
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { basename, dirname, join, relative, resolve } from 'node:path'
import { Option } from '@commander-js/extra-typings'
import manifest from '../../package.json' with { type: 'json' }
import { describeExpected, oneOf, type Reader } from '../core/options/readers.ts'
import { listNames, mapNames } from '../core/runtime/lists.ts'
import { STORE_KINDS } from '../http/config/store-kinds.ts'
import { HTTP_URL } from '../http/config/values.ts'
import { CommandError, findCause } from './command-error.ts'
import project from './new-project.json' with { type: 'json' }
import { createOption } from './read-option.ts'
import { defineCommand } from './subcommand.ts'
import type { Terminal } from './terminal.ts'

const STORES = listNames(STORE_KINDS).filter((kind) => kind !== 'memory')
type StoreChoice = (typeof STORES)[number]

export const init = defineCommand({
  name: 'init',
  summary: 'start a gateway in a project of its own',
  description:
    'Writes package.json, wrangler.toml with all variables, .dev.vars.example, src/worker.ts and .gitignore into a ' +
    'directory, and overwrites nothing. Without --api or --store, it asks for them.',
  examples: {
    'init my-gateway': 'asks where your API is, and where counts are to live',
    'init my-gateway --api https://api.example.com --store durable-object': 'asks nothing',
  },
  hasJson: false,
  declare: (command) =>
    command
      .argument('[directory]', 'where to (default: here)')
      .addOption(createOption('--api <url>', 'origin of your API, with its base path', HTTP_URL))
      .addOption(new Option('--store <store>', 'where counts live').choices(STORES)),
  async run({ terminal, cwd }, options, directory = '.') {
    const folder = resolve(cwd, directory)
    const packages = findPackages(cwd, folder)
    const present = FILES.filter((name) => existsSync(join(folder, name)))
    if (present.length > 0) {
      const hint = 'Nothing was written. Name another directory.'
      throw new CommandError(`${directory} has ${present.join(', ')} already`, { hint })
    }
    const api = options.api ?? (await ask(terminal, 'Where is your API, such as https://api.example.com?', HTTP_URL))
    const store =
      options.store ?? (await ask(terminal, `Where are counts to live, in ${STORES.join(' or ')}?`, oneOf(...STORES)))
    const files = listFiles(folder, { api, store, packages })
    for (const [name, text] of Object.entries(files)) {
      try {
        await mkdir(dirname(join(folder, name)), { recursive: true })
        await writeFile(join(folder, name), text, { flag: 'wx' })
      } catch (error) {
        throw new CommandError(`cannot write ${join(directory, name)} (${findCause(error)})`)
      }
    }
    const enter = folder === cwd ? '' : `cd ${relative(cwd, folder)} && `
    const secrets =
      store === 'redis' ? 'cp .dev.vars.example .dev.vars # and set the URL and token of your Redis in it\n' : ''
    terminal.show({}, () => `${FILES.join('\n')}\n\n${enter}${secrets}npm install && npm run dev`)
    return 'done'
  },
})

/** The versions of Node on which Wrangler runs. */
const WRANGLER_NODE = '>=22.12.0'

const FILES = ['package.json', 'wrangler.toml', '.dev.vars.example', 'src/worker.ts', '.gitignore'] as const

/** Asks until the answer can be read. */
async function ask<Value>(terminal: Terminal, question: string, reader: Reader<Value, unknown>): Promise<Value> {
  for (;;) {
    const answer = await terminal.ask(question, 'Name them by --api and --store.')
    const value = reader.parse(answer, '')
    if (value !== undefined) return value
    terminal.note(`expected ${describeExpected(reader, answer)}, got ${JSON.stringify(answer)}`)
  }
}

interface Answers {
  readonly api: string
  readonly store: StoreChoice
  /** Versions or files from which npm installs the two packages. */
  readonly packages: Readonly<Record<'sluice' | 'sluice-command', string>>
}

function listFiles(
  folder: string,
  { api, store, packages }: Answers,
): Readonly<Record<(typeof FILES)[number], string>> {
  const name =
    basename(folder)
      .toLowerCase()
      .replace(/[^a-z\d-]+/g, '-')
      .replace(/^-+|-+$/g, '') || 'gateway'
  const { hono, '@upstash/redis': upstash } = manifest.peerDependencies
  const json = {
    name,
    private: true,
    type: 'module',
    engines: { node: WRANGLER_NODE },
    scripts: {
      dev: 'sluice check && wrangler dev',
      check: 'sluice check',
      deploy: 'sluice check --deploy && wrangler deploy',
    },
    dependencies: { '@upstash/redis': upstash, hono, sluice: packages.sluice },
    devDependencies: { 'sluice-command': packages['sluice-command'], wrangler: manifest.devDependencies.wrangler },
    allowScripts: { esbuild: true, workerd: true },
  }
  const placement = `# Each decision is one round trip to Redis: run next to it.
[placement]
mode = "smart"

`
  const head = `#:schema node_modules/sluice-command/wrangler.schema.json
name = "${name}"
main = "src/worker.ts"
compatibility_date = "${project.compatibilityDate}"
minify = true
keep_names = false

${store === 'redis' ? placement : ''}[observability]
enabled = true

# Counts live in these unless STORE or the secrets name a Redis. Both names are fixed.
[[durable_objects.bindings]]
name = "LIMITS"
class_name = "LimitObject"

[[migrations]]
tag = "limits"
new_sqlite_classes = ["LimitObject"]
`
  const variables = project.wrangler
    .replace(/^# UPSTREAM_URL = .*$|^UPSTREAM_URL = .*$/m, () => `UPSTREAM_URL = ${JSON.stringify(api)}`)
    .replace(/^# STORE = .*$/m, () => `STORE = "${store}"`)
  return {
    'package.json': `${JSON.stringify(json, null, 2)}\n`,
    'wrangler.toml': `${head}\n${variables}\n`,
    '.dev.vars.example': `# Copy it to .dev.vars, which git ignores, and set what you need.\n\n${project.devVars}\n`,
    'src/worker.ts': "export { default, LimitObject } from 'sluice/worker'\n",
    '.gitignore': 'node_modules\n.dev.vars\n.wrangler\n',
  }
}

/** Installs what this command was installed from: a version, or files. */
function findPackages(cwd: string, folder: string): Answers['packages'] {
  const path = join(cwd, 'package.json')
  const { name, dependencies, devDependencies } = existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : {}
  if (name === manifest.name) {
    const hint = 'Run `npm run pack` here, and install both packages elsewhere, as docs/library.md says.'
    throw new CommandError('npm installs nothing from a clone of Sluice', { hint })
  }
  const installed: Readonly<Record<string, string>> = { ...devDependencies, ...dependencies }
  return mapNames(['sluice', 'sluice-command'], (name) => {
    const spec = installed[name] ?? `^${manifest.version}`
    return spec.startsWith('file:') ? `file:${relative(folder, resolve(cwd, spec.slice('file:'.length)))}` : spec
  })
}
