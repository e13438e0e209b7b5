import { execFileSync } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { joinExitCodes, listLockedFolders, readAudit } from '../../tools/audit.ts'

interface Locked {
  readonly version?: string
  readonly integrity?: string
  readonly link?: boolean
  readonly inBundle?: boolean
  readonly optional?: boolean
}

async function readJson(...path: readonly string[]) {
  return JSON.parse(await readFile(join(import.meta.dirname, '../..', ...path), 'utf8'))
}

test('listLockedFolders() finds every lock that is committed', () => {
  const committed = execFileSync('git', ['ls-files', '*package-lock.json'], { encoding: 'utf8' }).trim().split('\n')
  expect(listLockedFolders()).toEqual(committed.map(dirname).toSorted())
})

describe.each(listLockedFolders())('dependencies of %s', (folder) => {
  test('are pinned to one version each, the one that is locked', async () => {
    const { dependencies, devDependencies } = await readJson(folder, 'package.json')
    const { packages } = await readJson(folder, 'package-lock.json')
    const pinned = Object.entries({ ...dependencies, ...devDependencies })
    expect(pinned.length).toBeGreaterThan(0)
    for (const [name, wanted] of pinned as [string, string][]) {
      // `npm:express@4.22.3` for what is there twice.
      const version = wanted.replace(/^npm:.+@/, '')
      expect(version, name).toMatch(/^\d+\.\d+\.\d+(?:-[\w.]+)?$/)
      expect(packages[`node_modules/${name}`]?.version, name).toBe(version)
    }
  })

  test('are locked by what they hold, all that every platform needs', async () => {
    const { packages } = (await readJson(folder, 'package-lock.json')) as { packages: Record<string, Locked> }
    const locked = Object.entries(packages).filter(
      ([path, { link, inBundle, optional }]) => path !== '' && !link && !inBundle && !optional,
    )
    expect(locked.length).toBeGreaterThan(0)
    for (const [path, { integrity }] of locked) expect(integrity, path).toMatch(/^sha512-/)
  })
})

test('readAudit() fails on a known vulnerability, and names it', () => {
  const report = {
    vulnerabilities: { leftpad: { severity: 'high', range: '<1.0.1' } },
    metadata: { vulnerabilities: { high: 1, total: 1 } },
  }
  expect(readAudit(JSON.stringify(report))).toEqual({
    exitCode: 1,
    lines: ['high: leftpad <1.0.1', '1 known vulnerabilities'],
  })
})

test('readAudit() passes where nothing is known', () => {
  expect(readAudit('{"vulnerabilities":{},"metadata":{"vulnerabilities":{"total":0}}}').exitCode).toBe(0)
})

test.each([
  ['{"message":"405 Method Not Allowed","error":{}}', '405 Method Not Allowed'],
  ['', 'npm printed no JSON'],
])('readAudit() does not pass where the registry gave no answer: %s', (printed, reason) => {
  const line = `not audited: the registry gave no answer (${reason})`
  expect(readAudit(printed)).toEqual({ exitCode: 2, lines: [line] })
})

test('joinExitCodes() passes only if every lock was audited and has nothing', () => {
  expect(joinExitCodes([0, 0])).toBe(0)
  expect(joinExitCodes([0, 2])).toBe(2)
  expect(joinExitCodes([2, 1])).toBe(1)
  expect(joinExitCodes([])).toBe(2)
})
