import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { promisify } from 'node:util'

const ROOT = join(import.meta.dirname, '../..')

export interface ProjectOptions {
  /** Folder that is copied. */
  readonly from: string
  /** The packed file, which comes to lie beside. */
  readonly packed: string
  /** What to install: names of packages, or files. */
  readonly packages: readonly string[]
}

/** A project of somebody who uses the package, in a folder outside of the repository. */
export interface Project {
  readonly folder: string
  /**
   * Runs a command in the project's folder.
   * @returns what it wrote to its standard output
   * @throws Error with all that it wrote if it fails
   */
  run(command: string, args: readonly string[], env?: Readonly<Record<string, string>>): Promise<string>
  remove(): Promise<void>
}

export interface InstalledProject extends Project {
  /** Names of all packages that npm installed, those that others brought among them. */
  readonly packages: readonly string[]
}

/** Copies files into a new project, and installs packages there. */
export async function installProject({ from, packed, packages }: ProjectOptions): Promise<InstalledProject> {
  const project = await copyProject({ from, packed })
  const { folder, run } = project
  await writeFile(join(folder, 'package.json'), '{ "private": true, "type": "module" }')
  await cp(packed, join(folder, basename(packed)))
  // What is not the package itself, the repository's own installation has left in npm's cache.
  await run('npm', ['install', '--prefer-offline', '--no-audit', '--no-fund', '--ignore-scripts', ...packages])
  const lock = JSON.parse(await readFile(join(folder, 'node_modules/.package-lock.json'), 'utf8'))
  return { ...project, packages: Object.keys(lock.packages).map((path) => path.replace(/^.*node_modules\//, '')) }
}

/**
 * Copies a project with a package.json of its own, and gives it what that names and nothing else, as npm would: the
 * package from the packed file, and all others from the repository, which has installed the same versions.
 * @throws Error if it has others
 */
export async function linkProject({ from, packed }: Omit<ProjectOptions, 'packages'>): Promise<Project> {
  const project = await copyProject({ from, packed })
  const modules = join(project.folder, 'node_modules')
  const { dependencies, devDependencies } = await manifestIn(from)
  const { sluice, ...others } = { ...dependencies, ...devDependencies }
  if (sluice !== `file:${basename(packed)}`) throw new Error(`${from} names ${sluice}, and not ${basename(packed)}`)
  const own = join(modules, 'sluice')
  await mkdir(own, { recursive: true })
  await project.run('tar', ['-xzf', packed, '-C', own, '--strip-components=1'])
  await linkInto(modules, others)
  await linkInto(join(own, 'node_modules'), (await manifestIn(own)).dependencies)
  return project
}

async function copyProject({ from, packed }: Omit<ProjectOptions, 'packages'>): Promise<Project> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-project-'))
  await cp(from, folder, { recursive: true, filter: (file) => basename(file) !== 'node_modules' })
  return {
    folder,
    async run(command, args, env) {
      // What is compiled here, processes of this run see again, but no later run, which has other paths.
      const variables = { ...process.env, NODE_COMPILE_CACHE: join(dirname(packed), 'compiled'), ...env }
      const running = promisify(execFile)(command, args, { cwd: folder, env: variables })
      const { stdout } = await running.catch(({ stdout, stderr }) => {
        throw new Error(`${[command, ...args].join(' ')}\n${stdout}${stderr}`)
      })
      return stdout
    },
    remove: () => rm(folder, { recursive: true }),
  }
}

async function linkInto(modules: string, versions: Readonly<Record<string, string>>): Promise<void> {
  for (const [name, version] of Object.entries(versions)) {
    const installed = join(ROOT, 'node_modules', name)
    const { version: found } = await manifestIn(installed)
    if (found !== version) throw new Error(`${name} is to be ${version}, and ${found} is installed`)
    const link = join(modules, name)
    await mkdir(dirname(link), { recursive: true })
    await symlink(installed, link)
  }
}

interface Manifest {
  readonly version?: string
  readonly dependencies: Readonly<Record<string, string>>
  readonly devDependencies: Readonly<Record<string, string>>
}

async function manifestIn(folder: string): Promise<Manifest> {
  const manifest = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'))
  return { dependencies: {}, devDependencies: {}, ...manifest }
}
