import '../../tools/wrangler-switches.ts'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { unstable_getVarsForDev as getVarsForDev, unstable_readConfig as readConfig } from 'wrangler'
import { readSettings } from '../../src/command/settings/settings.ts'
import { expectProperty } from '../support/property.ts'

let cwd: string
beforeAll(async () => {
  cwd = await mkdtemp(join(tmpdir(), 'sluice-settings-'))
})
afterAll(() => rm(cwd, { recursive: true }))

/** What is read here, and by Wrangler itself. @param config its file; the one that is found if left out */
async function read(files: Readonly<Record<string, string>>, env?: string, config?: string) {
  for (const [name, text] of Object.entries(files)) await writeFile(join(cwd, name), text)
  const { variables } = readSettings({ cwd, shell: {}, config, env, view: 'development' })
  const { vars, configPath } = readConfig(
    { config: join(cwd, config ?? 'wrangler.toml'), ...(env && { env }) },
    { hideWarnings: true },
  )
  const bindings = getVarsForDev(configPath, undefined, vars, env, true)
  const expected = Object.entries(bindings).flatMap(([name, binding]) =>
    'value' in binding ? [[name, binding.value]] : [],
  )
  return { variables, expected: Object.fromEntries(expected) }
}

const TOML = `name = "x"
main = "x.ts"
compatibility_date = "2026-11-17"
[vars]
RATE_LIMITS = "1/1s"
STORE_TIMEOUT_MS = 100
LOCAL_SHARE = 0.5
KEY_PREFIX = 'a\\b'
EXEMPT = """
GET /a, \\
  GET /b"""
[[vars.POLICIES]]
name = "a"
reserve = { critical = 0.2 }
match = [
  "GET /x", # one
  "GET /y",
]
[[vars.POLICIES]]
name = "b"
[env.production.vars]
MODE = "shadow"
[env.staging]
workers_dev = false
`

const JSONC = `{
  // All in one.
  "name": "x", "main": "x.ts", "compatibility_date": "2026-11-17",
  "vars": {
    "RATE_LIMITS": "1/1s", /* why */ "STORE_TIMEOUT_MS": 100,
    "KEY_PREFIX": "a\\u0062",
    "POLICIES": [{ "name": "a", "match": ["GET /x", "GET /y",] }, { "name": "b" }],
  },
  "env": { "production": { "vars": { "MODE": "shadow" } }, "staging": { "workers_dev": false } },
}
`

describe('readSettings() takes what Wrangler does', () => {
  test.each([undefined, 'production', 'staging'])(
    'of wrangler.json and wrangler.jsonc, environment %s',
    async (env) => {
      for (const file of ['wrangler.json', 'wrangler.jsonc']) {
        const { variables, expected } = await read({ [file]: JSONC }, env, file)
        expect(variables).toEqual(expected)
        expect(Object.keys(variables).length).toBe({ production: 1, staging: 0 }[env ?? ''] ?? 4)
        await rm(join(cwd, file))
      }
    },
  )

  test('of the file that it looks for first', async () => {
    await writeFile(join(cwd, 'wrangler.toml'), TOML)
    for (const name of ['wrangler.jsonc', 'wrangler.json']) {
      await writeFile(join(cwd, name), JSONC)
      expect(readSettings({ cwd, shell: {}, view: 'development' }).file?.name).toBe(name)
    }
    await Promise.all(['wrangler.jsonc', 'wrangler.json'].map((name) => rm(join(cwd, name))))
  })

  test.each([undefined, 'production', 'staging'])('of wrangler.toml, environment %s', async (env) => {
    const { variables, expected } = await read({ 'wrangler.toml': TOML }, env)
    expect(variables).toEqual(expected)
  })

  test('of the .dev.vars of an environment, if there is one', async () => {
    const files = {
      'wrangler.toml': TOML,
      '.dev.vars': 'MODE=enforce\nANONYMOUS=ip',
      '.dev.vars.production': 'LEASES=4',
    }
    for (const env of ['production', 'staging']) {
      const { variables, expected } = await read(files, env)
      expect(variables).toEqual(expected)
    }
    await rm(join(cwd, '.dev.vars.production'))
  })

  test('of any .dev.vars', async () => {
    const value = fc.oneof(
      fc.string(),
      fc.string({ unit: fc.constantFrom('a', ' ', '#', '"', "'", '`', '\\', 'n', '=', '$', '{', '\n', '\r') }),
    )
    const quoted = fc.tuple(fc.constantFrom('', '"', "'", '`'), value).map(([quote, text]) => `${quote}${text}${quote}`)
    const line = fc
      .tuple(
        fc.constantFrom('', 'export ', '# ', ' '),
        fc.constantFrom('MODE', 'EXEMPT', 'X'),
        fc.constantFrom('=', ' = ', ': '),
        quoted,
      )
      .map((parts) => parts.join(''))
    await expectProperty(
      fc.asyncProperty(fc.array(line, { maxLength: 4 }), async (lines) => {
        const { variables, expected } = await read({ 'wrangler.toml': TOML, '.dev.vars': lines.join('\n') })
        expect(variables).toEqual(expected)
      }),
      200,
    )
  })
})

test('a file of variables that cannot be read is named', async () => {
  const folder = join(cwd, 'unreadable')
  await mkdir(join(folder, '.dev.vars'), { recursive: true })
  await writeFile(join(folder, 'wrangler.toml'), TOML)
  const options = { cwd: folder, shell: {}, view: 'development' } as const
  expect(() => readSettings(options)).toThrow('.dev.vars cannot be read (EISDIR)')
})

test('an empty secret of the shell is not set, unless a lost one would open a door', () => {
  const shell = { ADMIN_TOKEN: '', UPSTASH_REDIS_REST_TOKEN: '', IDENTITY_SECRET: '' }
  expect(readSettings({ cwd: tmpdir(), shell, view: 'development' }).variables).toEqual({ IDENTITY_SECRET: '' })
  expect(readSettings({ cwd: tmpdir(), shell, view: 'deployed' }).variables).toEqual({})
})
