import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { ResumeFile } from '../../../src/command/upkeep/resume-file.ts'

const IDENTITY = ['10.0.0.5:6379/2', 'expire 60000', 'a*']
const UNFINISHED = {
  cursor: '18446744073709551615',
  tally: { seen: 5, changed: 3, kept: 1, gone: 1, unnameable: 0 },
  share: 0.25,
  seconds: 1.5,
}

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-state-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

test('ResumeFile answers what was written last, for the same job only', () => {
  const env = { XDG_STATE_HOME: folder }
  const file = new ResumeFile(IDENTITY, env)
  expect(file.read()).toBeUndefined()
  expect(file.write(UNFINISHED)).toBe(true)
  expect(file.write({ ...UNFINISHED, share: 0.5 })).toBe(true)
  expect(new ResumeFile(IDENTITY, env).read()).toEqual({ ...UNFINISHED, share: 0.5 })
  for (const other of [
    ['10.0.0.5:6379/2', 'expire 60000', 'b*'],
    ['10.0.0.5:6379/2', 'delete', 'a*'],
    ['10.0.0.5:6379/3', 'expire 60000', 'a*'],
  ]) {
    expect(new ResumeFile(other, env).read()).toBeUndefined()
  }
  expect(readdirSync(dirname(file.path))).toHaveLength(1)
  expect(statSync(file.path).mode & 0o777).toBe(0o600)
  file.remove()
  file.remove()
  expect(file.read()).toBeUndefined()
})

test.each(['', '{', 'null', '{"cursor":"-1"}'])('ResumeFile takes %j for none', (text) => {
  const file = new ResumeFile(IDENTITY, { XDG_STATE_HOME: folder })
  file.write(UNFINISHED)
  writeFileSync(file.path, text)
  expect(file.read()).toBeUndefined()
})

test('ResumeFile takes one that is cut off, or changed, for none', () => {
  const file = new ResumeFile(IDENTITY, { XDG_STATE_HOME: folder })
  file.write(UNFINISHED)
  const whole = readFileSync(file.path, 'utf8').trim()
  for (let length = 0; length < whole.length; length++) {
    writeFileSync(file.path, whole.slice(0, length))
    expect(file.read()).toBeUndefined()
  }
  writeFileSync(file.path, whole.replace('18446744073709551615', 'FLUSHALL'))
  expect(file.read()).toBeUndefined()
})

test('ResumeFile says so where it cannot be written', () => {
  const file = join(folder, 'file')
  writeFileSync(file, '')
  expect(new ResumeFile(IDENTITY, { XDG_STATE_HOME: file }).write(UNFINISHED)).toBe(false)
})
