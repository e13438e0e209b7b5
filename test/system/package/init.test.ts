/** `sluice init` as somebody uses it who has the package and nothing else. */
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, inject, onTestFinished, test } from 'vitest'
import { findFreePort } from '../../../tools/free-port.ts'
import { send } from '../../support/http-client.ts'
import { installProject } from '../../support/installed-project.ts'
import { startLocalRegistry } from '../../support/local-registry.ts'
import { startProgram } from '../../support/program.ts'
import { startUpstream } from '../../support/upstream.ts'

const INIT = ['init', 'gateway', '--api', 'https://api.acme.test', '--store', 'durable-object']

async function makeEmptyFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-empty-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  return folder
}

test('a project that sluice init has started is installed, checked, built and run', async () => {
  const packed = inject('packed')
  const files = [packed, inject('packedCommand')]
  const project = await installProject({ from: await makeEmptyFolder(), packed, packages: files })
  onTestFinished(() => project.remove())
  await project.run('npx', ['sluice', ...INIT])
  const inside = (command: string) => project.run('sh', ['-c', `cd gateway && ${command}`])
  await inside('npm install --prefer-offline --no-audit --no-fund')
  expect(await inside('npm run -s check')).toContain('0 errors, 0 warnings')
  // What editors say of the file, by the schema that it names.
  const wrangler = join(project.folder, 'gateway/wrangler.toml')
  await inside('taplo lint wrangler.toml')
  const mistake = '\n[[vars.POLICIES]]\nname = "api"\nlimits = "10/1s"\nby = "heder:x"\n'
  await writeFile(join(project.folder, 'gateway/mistaken.toml'), (await readFile(wrangler, 'utf8')) + mistake)
  await expect(inside('taplo lint mistaken.toml')).rejects.toThrow('"heder:x" does not match')
  const built = await inside('npm run -s deploy -- --dry-run')
  expect(built).toContain('env.LIMITS (LimitObject)')
  expect(built).toContain('https://api.acme.test')

  const api = await startUpstream((_request, response) => void response.end('hello'))
  onTestFinished(() => api.stop())
  const port = await findFreePort()
  const args = ['run', 'dev', '--', '--port', `${port}`, '--var', `UPSTREAM_URL:${api.url}`]
  const { child, pid, end } = startProgram('npm', args, {
    cwd: join(project.folder, 'gateway'),
    env: { ...process.env, CI: '1' },
    stdio: ['ignore', 'inherit', 'inherit'],
    detached: true,
  })
  onTestFinished(async () => {
    // As Ctrl-C does: the shell that npm starts passes nothing on.
    process.kill(-pid, 'SIGINT')
    await end('SIGINT')
  })
  const url = new URL(`http://127.0.0.1:${port}`)
  while (!(await send(url, { path: '/_sluice/health' }).catch(() => undefined))) {
    if (child.exitCode !== null) throw new Error('npm run dev has ended')
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  const { status, headers } = await send(url, { path: '/' })
  expect([status, headers['ratelimit-policy']]).toEqual([200, expect.stringContaining('q=60;w=60')])
})

test('npx sluice fetches the command where the library alone is known', async () => {
  const run = promisify(execFile)
  const read = async (path: string) => {
    const { stdout } = await run('tar', ['-xzOf', path, 'package/package.json'])
    return { path, manifest: JSON.parse(stdout) }
  }
  const registry = await startLocalRegistry(await Promise.all([inject('packed'), inject('packedCommand')].map(read)))
  onTestFinished(() => registry.stop())
  const cwd = await makeEmptyFolder()
  // A cache of its own: the next run may pack other files under the same version.
  const env = { ...process.env, npm_config_registry: registry.url, npm_config_cache: join(cwd, 'cache') }
  const { stdout } = await run('npx', ['--yes', 'sluice', ...INIT], { cwd, env })
  expect(stdout).toContain('cd gateway && npm install && npm run dev')
  await expect(run('npx', ['--yes', 'sluice', 'check', '--config', 'absent'], { cwd, env })).rejects.toMatchObject({
    code: 2,
  })
})
