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
  /** What to install beside that which a package.json in `from` names: names of packages, or files. */
  readonly packages?: readonly string[]
  /** Tools to link from the repository. To install them once more would take long. */
  readonly tools?: readonly string[]
}

/** A project of somebody who uses the package, in a folder outside of the repository. */
export interface Project {
  readonly folder: string
  /** Names of all packages that npm installed, those that others brought among them. */
  readonly packages: readonly string[]
  /**
   * Runs a command in the project's folder.
   * @returns what it wrote to its standard output
   * @throws Error with all that it wrote if it fails
   */
  run(command: string, args: readonly string[], env?: Readonly<Record<string, string>>): Promise<string>
  remove(): Promise<void>
}

/** Copies files into a new project, and installs packages there without their development dependencies. */
export async function installProject({ from, packed, packages = [], tools = [] }: ProjectOptions): Promise<Project> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-project-'))
  const run: Project['run'] = async (command, args, env) => {
    // What is compiled here is never seen again: no other project has its paths.
    const variables = { ...process.env, NODE_COMPILE_CACHE: undefined, ...env }
    const running = promisify(execFile)(command, args, { cwd: folder, env: variables })
    const { stdout } = await running.catch(({ stdout, stderr }) => {
      throw new Error(`${[command, ...args].join(' ')}\n${stdout}${stderr}`)
    })
    return stdout
  }
  await writeFile(join(folder, 'package.json'), '{ "private": true, "type": "module" }')
  await cp(from, folder, { recursive: true, filter: (file) => basename(file) !== 'node_modules' })
  await cp(packed, join(folder, basename(packed)))
  // What is not the package itself, the repository's own installation has left in npm's cache.
  const flags = ['--prefer-offline', '--no-audit', '--no-fund', '--ignore-scripts', '--omit=dev']
  await run('npm', ['install', ...flags, ...packages])
  for (const tool of tools) {
    const link = join(folder, 'node_modules', tool)
    await mkdir(dirname(link), { recursive: true })
    await symlink(join(ROOT, 'node_modules', tool), link)
  }
  const lock = JSON.parse(await readFile(join(folder, 'node_modules/.package-lock.json'), 'utf8'))
  return {
    folder,
    packages: Object.keys(lock.packages).map((path) => path.replace(/^.*node_modules\//, '')),
    run,
    remove: () => rm(folder, { recursive: true }),
  }
}
