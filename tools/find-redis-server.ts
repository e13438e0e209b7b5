import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { defaultPath, findExecutable, lastLine } from './executables.ts'

const run = promisify(execFile)

/**
 * Debian builds the server into redis-tools (`redis-server` is only a symbolic link to it). Unlike the package
 * redis-server, it brings no system service that would take port 6379 now and after each boot.
 */
const APT_INSTALL = 'apt-get install -y --no-install-recommends --no-upgrade -o DPkg::Lock::Timeout=60 redis-tools'

const PACKAGE_MANAGERS = [
  // Installed already, or package lists at hand: no network needed for the lists. Otherwise fetch them first.
  {
    tool: 'apt-get',
    packageName: 'redis-tools',
    command: `${APT_INSTALL} || { apt-get update; ${APT_INSTALL}; }`,
    asRoot: true,
  },
  { tool: 'dnf', packageName: 'redis', command: 'dnf install -y redis', asRoot: true },
  { tool: 'apk', packageName: 'redis', command: 'apk add redis', asRoot: true },
  { tool: 'brew', packageName: 'redis', command: 'brew install redis', asRoot: false },
]

/** The server, under the names by which packages install it. It takes its role from argv[0], not from the file. */
const BINARIES = ['redis-server', 'redis-check-rdb']

export interface FindRedisServerOptions {
  /** Directories to search, as in PATH. Default: PATH, and those where packages put what they install. */
  path?: string
  /** Called if the search finds nothing; returns the path of the binary it installed. */
  install?: () => Promise<string>
}

/**
 * Path of a redis-server executable, under whichever name: one that is there, else newly installed by the system's
 * package manager. Run it with `redis-server` as argv[0].
 * @throws Error whose one line says what to install.
 */
export async function findRedisServer({
  path = defaultPath(),
  install = () => installRedis(),
}: FindRedisServerOptions = {}): Promise<string> {
  return (await findServer(path)) ?? (await install())
}

export interface InstallRedisOptions {
  /** Where to look for the package manager, and then for what it installed. */
  path?: string
  /** Whether the process may install for the whole system; sudo is left to whoever may decide that. */
  isRoot?: boolean
  log?: (line: string) => void
}

/**
 * Installs Redis with the first package manager there is and returns the path of the server.
 * @throws Error whose one line says what to install.
 */
export async function installRedis({
  path = defaultPath(),
  isRoot = process.getuid?.() === 0,
  log = console.error,
}: InstallRedisOptions = {}): Promise<string> {
  let reason = 'no package manager that could install it'
  for (const { tool, packageName, command, asRoot } of PACKAGE_MANAGERS) {
    if (!(await findExecutable(tool, path))) continue
    if (asRoot && !isRoot) {
      reason = `only root may install the package "${packageName}" with ${tool}`
      continue
    }
    log(`No Redis is installed: installing the package "${packageName}" with ${tool} …`)
    try {
      await run('sh', ['-c', command], { env: { ...process.env, PATH: path, DEBIAN_FRONTEND: 'noninteractive' } })
    } catch (error) {
      throw new Error(explain(`${tool} failed: ${lastLine(error)}`))
    }

    const found = await findServer(path)
    if (found) return found
    throw new Error(explain(`${tool} installed no server`))
  }
  throw new Error(explain(reason))
}

async function findServer(path: string): Promise<string | undefined> {
  for (const binary of BINARIES) {
    const found = await findExecutable(binary, path)
    if (found) return found
  }
  return undefined
}

function explain(reason: string): string {
  return `No Redis is installed (${reason}). Install Redis 6.2 or newer: "sudo apt-get install redis-tools", "brew install redis", or see https://redis.io/docs/latest/operate/oss_and_stack/install/`
}
