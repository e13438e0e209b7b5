/**
 * Publishes both packages, as the workflow of releases does: `npm run release`. With `-- --dry-run`, it does all but that,
 * and ends with 1 if a release would be refused. What goes with a release is then in build/release/.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parse } from 'yaml'
import { inspectPackages, writePackages } from './pack.ts'
import { ROOT, readSource } from './write-generated.ts'

const FOLDER = join(ROOT, 'build/release')
/** Stands in package.json until the repository has a place. */
const PLACEHOLDER = '/OWNER/'

export interface ReleaseManifest {
  readonly version: string
  readonly repository: { readonly url: string }
  readonly homepage: string
  readonly bugs: string
}

/** What a release is refused for, as far as texts tell. */
export function findProblems(
  { version, repository, homepage, bugs }: ReleaseManifest,
  changelog: string,
  chart: { readonly appVersion?: unknown },
): readonly string[] {
  const places = Object.entries({ 'repository.url': repository.url, homepage, bugs })
  const { date } = readNotes(changelog, version)
  return [
    ...places.flatMap(([key, url]) =>
      url.includes(PLACEHOLDER) ? `package.json: ${key} still has the placeholder: ${url}` : [],
    ),
    ...(date === undefined ? [`CHANGELOG.md: expected "## ${version}, <date>", such as 2026-11-28`] : []),
    ...(chart.appVersion === version ? [] : [`ops/chart/Chart.yaml: expected appVersion: ${version}`]),
  ]
}

/** @returns what the changelog says of a version; without date if that is not in its heading */
export function readNotes(changelog: string, version: string): { readonly date?: string; readonly text: string } {
  const sections = changelog.split(/^## /m).slice(1)
  const section = sections.find((each) => each.startsWith(`${version}, `)) ?? ''
  const [heading = '', ...lines] = section.split('\n')
  const [date] = /\d{4}-\d\d-\d\d$/.exec(heading) ?? []
  return { ...(date !== undefined && { date }), text: lines.join('\n').trim() }
}

function run(command: string, ...args: readonly string[]): string {
  return execFileSync(command, args, { cwd: ROOT, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 }).trim()
}

function findProblemsOfGit(version: string): readonly string[] {
  // The tag of a run that has failed after it is one more reason to run again.
  const isTagged = run('git', 'tag', '--list', `v${version}`, '--no-contains', 'HEAD') !== ''
  return [
    ...(run('git', 'status', '--porcelain') === '' ? [] : ['git: there are changes that are not committed']),
    ...(isTagged ? [`git: v${version} is there already, at another commit`] : []),
  ]
}

async function writeRelease(version: string): Promise<readonly string[]> {
  await rm(FOLDER, { recursive: true, force: true })
  await mkdir(FOLDER, { recursive: true })
  const packed = await writePackages(FOLDER)
  const sbom = (...args: readonly string[]) =>
    run('npm', 'sbom', '--sbom-format=cyclonedx', '--package-lock-only', ...args)
  await writeFile(join(FOLDER, 'sluice.cdx.json'), sbom('--omit=dev'))
  // What the command is made of is bundled, so for npm it belongs to development.
  await writeFile(join(FOLDER, 'sluice-command.cdx.json'), sbom())
  await writeFile(join(FOLDER, 'notes.md'), `${readNotes(readSource('CHANGELOG.md'), version).text}\n`)
  const names = (await readdir(FOLDER)).filter((name) => name !== 'notes.md')
  const sums = names.map(async (name) => {
    const hash = createHash('sha256').update(await readFile(join(FOLDER, name)))
    return `${hash.digest('hex')}  ${name}\n`
  })
  const text = (await Promise.all(sums)).join('')
  await writeFile(join(FOLDER, 'SHA256SUMS'), text)
  console.log(text)
  return inspectPackages(packed)
}

export interface PackedPackage {
  readonly name: string
  readonly file: string
  /** As registries name what a file holds. */
  readonly integrity: string
}

export interface Registry {
  /** @returns the integrity of that version; undefined if it is not there */
  findIntegrity(name: string): string | undefined
  /** @returns whether it was published */
  publish(file: string): boolean
}

/** Publishes packages in order, up to the first that fails; those that an earlier run has published are left as they are. */
export function releaseInOrder(packages: readonly PackedPackage[], registry: Registry): readonly string[] {
  for (const { name, file, integrity } of packages) {
    const published = registry.findIntegrity(name)
    if (published === integrity) continue
    if (published !== undefined) return [`npm: ${name} is there already, and holds something else`]
    if (!registry.publish(file)) return [`npm: ${name} was not published`]
  }
  return []
}

/** Publishes the command first: the library names its version. */
async function releasePackages(version: string, isDry: boolean): Promise<readonly string[]> {
  const packages = ['sluice-command', 'sluice'].map(async (name) => {
    const file = join(FOLDER, `${name}-${version}.tgz`)
    return {
      name,
      file,
      integrity: `sha512-${createHash('sha512')
        .update(await readFile(file))
        .digest('base64')}`,
    }
  })
  return releaseInOrder(await Promise.all(packages), {
    findIntegrity(name) {
      if (isDry) return undefined
      const { stdout } = spawnSync('npm', ['view', `${name}@${version}`, 'dist.integrity'], { encoding: 'utf8' })
      return stdout.trim() || undefined
    },
    publish(file) {
      // Provenance can only be had where GitHub or GitLab vouches for the run.
      const how = isDry ? '--dry-run' : '--provenance'
      return spawnSync('npm', ['publish', file, '--access=public', how], { stdio: 'inherit' }).status === 0
    },
  })
}

function inspectLocks(): readonly string[] {
  const { status } = spawnSync('npm', ['run', '-s', 'audit'], { cwd: ROOT, stdio: 'inherit' })
  return status === 0 ? [] : [`npm run audit ended with ${status}`]
}

if (import.meta.main) {
  const isDry = process.argv.includes('--dry-run')
  const manifest: ReleaseManifest = JSON.parse(readSource('package.json'))
  const { version } = manifest
  console.log(`Sluice ${version}${isDry ? ', dry run' : ''}\n`)
  const problems = [
    ...findProblems(manifest, readSource('CHANGELOG.md'), parse(readSource('ops/chart/Chart.yaml'))),
    ...findProblemsOfGit(version),
    ...inspectLocks(),
    ...(await writeRelease(version)),
  ]
  if (isDry || problems.length === 0) problems.push(...(await releasePackages(version, isDry)))
  for (const problem of problems) console.error(`refused: ${problem}`)
  if (problems.length > 0) process.exitCode = 1
  else console.log(isDry ? 'a release would be published' : `published ${version}`)
}
