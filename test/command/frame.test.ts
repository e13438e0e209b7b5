import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { commandPage } from '../../src/command/page.ts'
import { SUBCOMMANDS } from '../../src/command/subcommands.ts'
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

test('docs/command.md is what `npm run command-page` writes', async () => {
  expect(await readFile(join(ROOT, 'docs/command.md'), 'utf8')).toBe(commandPage(SUBCOMMANDS))
})
