/** Redis, which almost everything here needs. */
import { findExecutable, type InstallOptions, installProgram, type Program, readPath } from './programs.ts'

const REDIS: Program = {
  title: 'Redis',
  // Packages install the server under these names. It takes its role from argv[0], not from the file.
  names: ['redis-server', 'redis-check-rdb'],
  packages: {
    // Debian builds the server into redis-tools (`redis-server` is only a symbolic link to it). Unlike the package
    // redis-server, it brings no system service that would take port 6379 now and after each boot.
    'apt-get': 'redis-tools',
    dnf: 'redis',
    apk: 'redis',
    brew: 'redis',
  },
  advice:
    'Install Redis 6.2 or newer: "sudo apt-get install redis-tools", "brew install redis", or see https://redis.io/docs/latest/operate/oss_and_stack/install/',
}

/**
 * Path of a redis-server executable, under whichever name: one that is there, else newly installed by the system's
 * package manager. Run it with `redis-server` as argv[0].
 * @param options path: directories to search; install: called if the search finds nothing
 * @throws Error whose one line says what to install
 */
export async function findRedisServer(
  options: { readonly path?: string; readonly install?: () => Promise<string> } = {},
): Promise<string> {
  const { path = readPath(), install = installRedis } = options
  return (await findExecutable(REDIS.names, path)) ?? (await install())
}

export function installRedis(options?: InstallOptions): Promise<string> {
  return installProgram(REDIS, options)
}
