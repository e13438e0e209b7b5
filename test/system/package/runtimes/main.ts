/**
 * Runs the library as it is built on Node 20, 22, 26 and that of the repository, on Bun and on Deno, over a real Redis, and
 * starts the command on each Node:
 *
 *     npm run test:runtimes
 */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { startRedisServer } from '../../../../tools/redis-server.ts'
import { installRuntimes, RUNTIMES } from './install.ts'

const FOLDER = import.meta.dirname
installRuntimes()
spawnSync('npm', ['run', '--silent', 'build:package'], { stdio: 'inherit' })
const redis = await startRedisServer()
const client = fileURLToPath(import.meta.resolve('@redis/client'))
let failed = 0
for (const [name, [command = '', ...options]] of Object.entries(RUNTIMES)) {
  const version = spawnSync(command, ['--version'], { encoding: 'utf8' }).stdout?.split('\n')[0]
  const args = [...options, join(FOLDER, 'check.js'), String(redis.port), client]
  const { status } = spawnSync(command, args, { stdio: 'inherit' })
  const isStarted = !name.startsWith('Node') || startsCommand(command)
  const hasPassed = status === 0 && isStarted
  console.log(`${name} (${version}): ${hasPassed ? 'passed' : 'FAILED'}`)
  if (!hasPassed) failed++
}
await redis.stop()
process.exit(failed)

/** Whether the command finds what this repository's configuration says. */
function startsCommand(node: string): boolean {
  const args = [join(FOLDER, '../../../../lib/command/cli.js'), 'check', '--json']
  const { stdout } = spawnSync(node, args, { encoding: 'utf8' })
  return JSON.parse(stdout).file === 'wrangler.toml'
}
