/** Programs that are installed, under whichever name, or that the system's package manager installs. */
import { execFile } from 'node:child_process'
import { access, constants } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'

/** A minimal PATH often lacks the directories where package managers live and where they put what they install. */
const SYSTEM_PATH = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin', '/opt/homebrew/bin']
const APT_INSTALL = 'apt-get install -y --no-install-recommends --no-upgrade -o DPkg::Lock::Timeout=120'

const PACKAGE_MANAGERS = [
  // Installed already, or package lists at hand: no network needed for the lists. Otherwise fetch them first.
  { tool: 'apt-get', install: 'install_it || { apt-get update; install_it; }', needsRoot: true },
  { tool: 'dnf', install: 'dnf install -y "$1"', needsRoot: true },
  { tool: 'apk', install: 'apk add "$1"', needsRoot: true },
  { tool: 'brew', install: 'brew install "$1"', needsRoot: false },
] as const

export interface Program {
  /** What people call it. */
  readonly title: string
  /** Names of its executable, the best first. */
  readonly names: readonly string[]
  /** What each package manager calls it. */
  readonly packages: Readonly<Partial<Record<(typeof PACKAGE_MANAGERS)[number]['tool'], string>>>
  /** What those do who install it themselves. */
  readonly advice: string
}

export interface InstallOptions {
  /** Where to look for the program, and for the package manager. Default: PATH, and where packages put programs. */
  path?: string
  /** Whether the process may install for the whole system; sudo is left to those who may decide that. */
  isRoot?: boolean
  log?: (line: string) => void
}

/** PATH, and where packages put what they install. */
export function readPath(): string {
  return [process.env.PATH, ...SYSTEM_PATH].join(delimiter)
}

/** The first of these names that is a program on the path. */
export async function findExecutable(names: string | readonly string[], path: string): Promise<string | undefined> {
  for (const name of [names].flat()) {
    for (const directory of path.split(delimiter).filter((each) => each !== '')) {
      const file = join(directory, name)
      const isExecutable = await access(file, constants.X_OK).then(
        () => true,
        () => false,
      )
      if (isExecutable) return file
    }
  }
  return undefined
}

/**
 * Path of a program: one that is there, else newly installed.
 * @throws Error whose one line says what to install
 */
export async function findProgram(program: Program, options: InstallOptions = {}): Promise<string> {
  const found = await findExecutable(program.names, options.path ?? readPath())
  return found ?? installProgram(program, options)
}

/**
 * Installs a program with the first package manager there is.
 * @returns its path
 * @throws Error whose one line says what to install
 */
export async function installProgram(
  { title, names, packages, advice }: Program,
  { path = readPath(), isRoot = process.getuid?.() === 0, log = console.error }: InstallOptions = {},
): Promise<string> {
  const explain = (reason: string) => new Error(`No ${title} is installed (${reason}). ${advice}`)
  let reason = 'no package manager that could install it'
  for (const { tool, install, needsRoot } of PACKAGE_MANAGERS) {
    const name = packages[tool]
    if (name === undefined || !(await findExecutable(tool, path))) continue
    if (needsRoot && !isRoot) {
      reason = `only root may install the package "${name}" with ${tool}`
      continue
    }
    log(`No ${title} is installed: installing the package "${name}" with ${tool} …`)
    const env = { ...process.env, PATH: path, DEBIAN_FRONTEND: 'noninteractive' }
    const script = `install_it() { ${APT_INSTALL} ${name}; }; ${install}`
    await promisify(execFile)('sh', ['-c', script, 'sh', name], { env }).catch((error) => {
      throw explain(`${tool} failed: ${readLastLine(error)}`)
    })
    const found = await findExecutable(names, path)
    if (found) return found
    throw explain(`${tool} installed no ${names[0]}`)
  }
  throw explain(reason)
}

/** Reads the last line that a failed program has printed. */
export function readLastLine(error: unknown): string {
  const { stderr, message } = error as { stderr?: string; message: string }
  return (stderr || message).trim().split('\n').at(-1) ?? ''
}
