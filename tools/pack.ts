/**
 * Packs the library and the command as they are published: `npm run pack` writes both files into this folder, `-- <folder>`
 * into another one. With `--check`, it judges what they hold, and keeps nothing.
 */
import { execFile, execFileSync } from 'node:child_process'
import { existsSync, globSync, statSync } from 'node:fs'
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { ROOT, readSource } from './write-generated.ts'

const run = promisify(execFile)

/** What lib/ is built of; a folder is as new as its newest name. */
const SOURCES = [
  'src',
  'src/**',
  'package*.json',
  'tsconfig*.json',
  'tsdown.config.ts',
  'tools/{bundled-licenses,settings-docs,wrangler-schema}.ts',
]
/** Parts of package.json that only this repository needs. */
const OWN_KEYS = ['scripts', 'devDependencies', 'cloudflare', 'allowScripts', 'overrides']

export interface PackedFile {
  readonly name: string
  readonly path: string
  readonly files: readonly string[]
  readonly packedBytes: number
  readonly unpackedBytes: number
}

/** Who imports a limiter downloads the first; who runs the command, the second, too. */
const MAX_BYTES = {
  sluice: { packed: 365_000, unpacked: 1_150_000 },
  'sluice-command': { packed: 500_000, unpacked: 1_760_000 },
}
const ALLOWED_FILES = {
  sluice: /^(?:package\.json|README\.md|LICENSE|CHANGELOG\.md|lib\/[\w.-]+\.(?:js|d\.ts))$/,
  'sluice-command': /^(?:package\.json|README\.md|LICENSE|licenses\.txt|wrangler\.schema\.json|[\w.-]+\.js)$/,
}

/** @returns the library, then the command */
export async function writePackages(folder: string): Promise<readonly PackedFile[]> {
  // `npm ci` has built it already.
  if (!isBuilt()) execFileSync('npm', ['run', '-s', 'build:package'], { cwd: ROOT, stdio: 'inherit' })
  const staged = await mkdtemp(join(tmpdir(), 'sluice-pack-'))
  try {
    const [library, command] = [join(staged, 'library'), join(staged, 'command')]
    await cp(join(ROOT, 'lib/command'), command, { recursive: true })
    await cp(join(ROOT, 'lib'), join(library, 'lib'), { recursive: true })
    await rm(join(library, 'lib/command'), { recursive: true })
    const manifest = JSON.parse(readSource('package.json'))
    const kept = Object.entries(manifest).filter(([key]) => !OWN_KEYS.includes(key))
    await writeFile(join(library, 'package.json'), `${JSON.stringify(Object.fromEntries(kept), null, 2)}\n`)
    await writeFile(join(library, 'README.md'), rewriteLinks(readSource('README.md'), manifest))
    await cp(join(ROOT, 'CHANGELOG.md'), join(library, 'CHANGELOG.md'))
    await writeFile(join(command, 'README.md'), rewriteLinks(COMMAND_README, manifest))
    for (const each of [library, command]) await cp(join(ROOT, 'LICENSE'), join(each, 'LICENSE'))
    await mkdir(folder, { recursive: true })
    const { stdout } = await run('npm', ['pack', library, command, '--pack-destination', folder, '--json'])
    return readPacked(JSON.parse(stdout), folder)
  } finally {
    await rm(staged, { recursive: true })
  }
}

const COMMAND_README = `# sluice-command

What \`npx sluice\` runs, of the rate limiter [Sluice](README.md): its [subcommands](docs/cli.md).
It is a package of its own, so that programs that limit do not install it.
`

interface NpmPacked {
  readonly name: string
  readonly filename: string
  readonly size: number
  readonly unpackedSize: number
  readonly files: readonly { readonly path: string }[]
}

/** @param printed a list until npm 11, and a table by name since */
function readPacked(printed: readonly NpmPacked[] | Readonly<Record<string, NpmPacked>>, folder: string) {
  return Object.values(printed).map(
    ({ name, filename, size, unpackedSize, files }): PackedFile => ({
      ...{ name, path: join(folder, filename), files: files.map(({ path }) => path) },
      ...{ packedBytes: size, unpackedBytes: unpackedSize },
    }),
  )
}

/** Sites that show a package have none of the files beside its README. */
export function rewriteLinks(
  markdown: string,
  { repository, version }: { readonly repository: { readonly url: string }; readonly version: string },
): string {
  const base = repository.url.replace(/^git\+|\.git$/g, '')
  return markdown.replace(
    /(!?)(\[[^\]]*\])\((?![a-z]+:|#)([^)]+)\)/g,
    (_, image: string, text: string, path: string) => {
      return `${image}${text}(${base}/${image === '' ? 'blob' : 'raw'}/v${version}/${path})`
    },
  )
}

function isBuilt(): boolean {
  // The last that a build writes.
  if (!existsSync(join(ROOT, 'lib/command/cli.js'))) return false
  return Math.max(...listChangesMs(SOURCES)) < Math.min(...listChangesMs(['lib/**/*.*']))
}

function listChangesMs(patterns: string[]): number[] {
  return globSync(patterns, { cwd: ROOT }).map((path) => statSync(join(ROOT, path)).mtimeMs)
}

/** @returns what is wrong with what would be published */
export async function inspectPackages([library, command]: readonly PackedFile[]): Promise<readonly string[]> {
  if (!library || !command) return ['expected two packages']
  const problems = [library, command].flatMap(({ name, files, packedBytes, unpackedBytes }) => {
    const { packed, unpacked } = MAX_BYTES[name as keyof typeof MAX_BYTES]
    const strangers = files.filter((file) => !ALLOWED_FILES[name as keyof typeof ALLOWED_FILES].test(file))
    return [
      ...strangers.map((file) => `${name} holds ${file}`),
      ...(packedBytes > packed ? [`${name} has ${packedBytes} bytes packed, of at most ${packed}`] : []),
      ...(unpackedBytes > unpacked ? [`${name} has ${unpackedBytes} bytes, of at most ${unpacked}`] : []),
    ]
  })
  const manifest = JSON.parse(readSource('package.json'))
  const { 'sluice-command': wanted } = manifest.peerDependencies
  if (wanted !== manifest.version)
    problems.push(`package.json wants sluice-command ${wanted} beside ${manifest.version}`)
  // Both exit with an error if there is something to tell. The package is modules only, which is what `esm-only` allows.
  const bin = (name: string) => join(ROOT, 'node_modules/.bin', name)
  const judged = [
    [bin('publint'), library.path, '--strict'],
    [bin('publint'), command.path, '--strict'],
    [bin('attw'), library.path, '--profile', 'esm-only'],
  ] as const
  const judging = judged.map(async ([program, ...args]) => {
    await run(program, args).catch(({ stdout, stderr }) => problems.push(`${stdout}${stderr}`.trim()))
  })
  await Promise.all(judging)
  return problems
}

if (import.meta.main) {
  const [argument] = process.argv.slice(2)
  const isCheck = argument === '--check'
  const folder = isCheck ? await mkdtemp(join(tmpdir(), 'sluice-packed-')) : (argument ?? ROOT)
  const packed = await writePackages(folder)
  for (const { path, packedBytes, unpackedBytes } of isCheck ? [] : packed) {
    console.log(`${path}: ${Math.round(packedBytes / 1_000)} kB, ${Math.round(unpackedBytes / 1_000)} kB unpacked`)
  }
  for (const problem of isCheck ? await inspectPackages(packed) : []) {
    console.error(problem)
    process.exitCode = 1
  }
  if (isCheck) await rm(folder, { recursive: true })
}
