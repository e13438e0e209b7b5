import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { SUBCOMMANDS } from '../../src/command/program.ts'
import { renderCommandPage } from '../../tools/command-page.ts'
import { renderErrorsPage, renderServedPage } from '../../tools/errors-page.ts'
import { runCommand, runInside } from './run-command.ts'

const ROOT = join(import.meta.dirname, '../..')

test('sluice --help names every subcommand and exit code', async () => {
  const { code, stdout } = await runCommand(['--help'])
  expect(code).toBe(0)
  for (const { name } of SUBCOMMANDS) expect(stdout.replace(/\s+/g, ' ')).toContain(`${name} `)
  expect(stdout).toContain('130  ended by Ctrl-C')
})

test.each(['chek', '--no-such-option'])('sluice %s is misuse', async (argument) => {
  const { code, stdout, stderr } = await runInside([argument])
  expect([code, stdout]).toEqual([2, ''])
  expect(stderr).toMatch(/^error: unknown /)
})

test('sluice check takes the configuration of this repository, and prints no colours', async () => {
  const { code, stdout } = await runInside(['check'], { cwd: ROOT })
  expect(code).toBe(0)
  expect(stdout).not.toContain('\x1b')
})

test('sluice complete answers what may come next', async () => {
  expect((await runCommand(['complete', '--', 'chec'])).stdout).toContain('check\tfind mistakes')
  expect((await runCommand(['complete', '--', 'check', '--st'])).stdout).toContain('--strict\t')
})

test.each(['bash', 'zsh', 'fish'])('sluice completion %s prints a script for it', async (shell) => {
  const { code, stdout } = await runCommand(['completion', shell])
  expect(code).toBe(0)
  expect(stdout).toContain('sluice complete --')
})

test('the script for bash completes', { tags: ['slow'] }, async () => {
  const { stdout: script } = await runCommand(['completion', 'bash'])
  // What bash-completion has, and the command itself, which is not on the PATH.
  const setUp = `_get_comp_words_by_ref() { cur=che prev=sluice words=(sluice che) cword=1; }
sluice() { "${process.execPath}" "${join(ROOT, 'src/cli.ts')}" "$@"; }`
  const text = `${setUp}\n${script}\n__sluice_complete 2>/dev/null; echo "\${COMPREPLY[@]}"`
  const { stdout } = await promisify(execFile)('bash', ['-c', text])
  expect(stdout).toBe('check\n')
})

test('npm run deploy stops at a configuration that the Worker would refuse, and else deploys with the arguments given', {
  tags: ['slow'],
}, async () => {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-deploy-'))
  onTestFinished(() => rm(directory, { recursive: true }))
  await writeFile(join(directory, 'wrangler'), '#!/bin/sh\necho deployed "$@"\n', { mode: 0o755 })
  const env = { ...process.env, PATH: `${directory}:${process.env.PATH}` }
  const deploy = (config: string, ...args: string[]) =>
    promisify(execFile)(process.execPath, ['tools/deploy.ts', '--config', config, ...args], { env, cwd: ROOT })
  const bad = await deploy('test/command/config/limits-in-words.toml').catch((error) => error)
  expect(bad).toMatchObject({ code: 1, stdout: expect.not.stringContaining('deployed') })
  expect(bad.stdout).toContain('RATE_LIMITS')
  const example = 'test/command/config/example-upstream.toml'
  const early = await deploy(example).catch((error) => error)
  expect(early).toMatchObject({ code: 1, stdout: expect.not.stringContaining('deployed') })
  expect(early.stdout).toContain('error: UPSTREAM_URL is still that of an example')
  expect((await deploy(example, '--dry-run')).stdout).toContain('deployed deploy')
  expect((await deploy(example, '--var', 'UPSTREAM_URL:https://api.acme.test')).stdout).toContain('deployed deploy')
  const { stdout } = await deploy('test/command/config/shadow.toml')
  expect(stdout).toContain('deployed deploy --config test/command/config/shadow.toml')
})

test('the pages about errors are what `npm run errors-page` writes', async () => {
  expect(await readFile(join(ROOT, 'docs/errors.md'), 'utf8')).toBe(renderErrorsPage())
  expect(await readFile(join(ROOT, 'src/gateway/app/errors-page.ts'), 'utf8')).toBe(renderServedPage())
})

test('docs/cli.md is what `npm run command-page` writes', async () => {
  expect(await readFile(join(ROOT, 'docs/cli.md'), 'utf8')).toBe(renderCommandPage())
})
