/** `sluice init` as somebody uses it who has the package and nothing else. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { expect, inject, onTestFinished, test } from 'vitest'
import { installProject } from '../../support/installed-project.ts'

test('a project that sluice init has started is installed, checked and built', async () => {
  const from = await mkdtemp(join(tmpdir(), 'sluice-empty-'))
  onTestFinished(() => rm(from, { recursive: true }))
  const packed = inject('packed')
  const project = await installProject({ from, packed, packages: [`./${basename(packed)}`] })
  onTestFinished(() => project.remove())
  await project.run('npx', ['sluice', 'init', 'gateway', '--api', 'https://api.acme.test', '--store', 'durable-object'])
  const inside = (command: string) => project.run('sh', ['-c', `cd gateway && ${command}`])
  await inside('npm install --prefer-offline --no-audit --no-fund')
  expect(await inside('npm run -s check')).toContain('0 errors, 0 warnings')
  const built = await inside('npx wrangler deploy --dry-run')
  expect(built).toContain('env.LIMITS (LimitObject)')
  expect(built).toContain('https://api.acme.test')
})
