/**
 * Runs the library as it is packed on Node 20, 22 and that of the repository, on Bun and on Deno, over a real Redis:
 *
 *     npm run test:runtimes
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { startRedisServer } from '../../../../tools/redis-server.ts'

const FOLDER = import.meta.dirname
const installed = (path: string) => join(FOLDER, 'node_modules', path)
const RUNTIMES: Readonly<Record<string, readonly string[]>> = {
  'Node 20': [installed('node20/bin/node')],
  'Node 22': [installed('node22/bin/node')],
  Node: [process.execPath],
  Bun: [installed('.bin/bun'), 'run'],
  Deno: [installed('.bin/deno'), 'run', '--allow-all', '--no-lock', '--node-modules-dir=manual'],
}

// Without a lock: what Deno has for other platforms, npm leaves out of it, and then refuses it.
execFileSync('npm', ['install', '--prefix', FOLDER, '--no-package-lock', '--no-audit', '--no-fund'], {
  stdio: 'inherit',
})
spawnSync('npm', ['run', '--silent', 'build:package'], { stdio: 'inherit' })
const redis = await startRedisServer()
const client = fileURLToPath(import.meta.resolve('@redis/client'))
let failed = 0
for (const [name, [command = '', ...options]] of Object.entries(RUNTIMES)) {
  const version = spawnSync(command, ['--version'], { encoding: 'utf8' }).stdout?.split('\n')[0]
  const args = [...options, join(FOLDER, 'check.js'), String(redis.port), client]
  const { status } = spawnSync(command, args, { stdio: 'inherit' })
  console.log(`${name} (${version}): ${status === 0 ? 'passed' : 'FAILED'}`)
  if (status !== 0) failed++
}
await redis.stop()
process.exit(failed)
