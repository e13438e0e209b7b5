import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { SECRETS } from '../../src/http/config/variables.ts'
import { readVariables } from '../../tools/dev-variables.ts'

const TOML = `
name = "test"
main = "worker.ts"
compatibility_date = "2026-11-17"
[secrets]
required = ["UPSTASH_REDIS_REST_URL"]
[vars]
UPSTREAM_URL = "https://placeholder.example.com"
RATE_LIMITS = "1/1s"
ANONYMOUS = "ip"
STORE_TIMEOUT_MS = 100
[[vars.POLICIES]]
name = "from toml"
`

async function read(files: Record<string, string>, shell: Record<string, string> = {}) {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-vars-'))
  onTestFinished(() => rm(directory, { recursive: true }))
  for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text)
  return readVariables({ shell, wranglerToml: join(directory, 'wrangler.toml') })
}

test('readVariables() takes wrangler.toml, but not its upstream', async () => {
  expect(await read({ 'wrangler.toml': TOML })).toEqual({
    RATE_LIMITS: '1/1s',
    ANONYMOUS: 'ip',
    STORE_TIMEOUT_MS: 100,
    POLICIES: [{ name: 'from toml' }],
  })
})

test('readVariables() lets .dev.vars win over wrangler.toml, and the shell over both', async () => {
  const files = {
    'wrangler.toml': TOML,
    '.dev.vars': 'UPSTREAM_URL=http://dev\nRATE_LIMITS=2/1s\nANONYMOUS=deny\nUPSTASH_REDIS_REST_URL=http://redis',
    '.env': 'KEY_PREFIX=other',
  }
  expect(await read(files, { RATE_LIMITS: '3/1s', MODE: 'shadow', HOME: '/root' })).toEqual({
    UPSTREAM_URL: 'http://dev',
    RATE_LIMITS: '3/1s',
    ANONYMOUS: 'deny',
    STORE_TIMEOUT_MS: 100,
    POLICIES: [{ name: 'from toml' }],
    UPSTASH_REDIS_REST_URL: 'http://redis',
    MODE: 'shadow',
  })
})

test.for([
  '10/1s, 120/1m',
  'GET /healthz, OPTIONS *',
  '[{"name":"a: \'b\'","limits":"1/1s, 2/1m"}]',
  'two\nlines',
  ' spaces ',
  '$HOME `x` "q" \\n #',
  '',
])('readVariables() takes %j from the shell as it is', async (value) => {
  expect(await read({ 'wrangler.toml': TOML }, { EXEMPT: value })).toMatchObject({ EXEMPT: value })
})

test('readVariables() hands on what looks misspelt in the shell, for the Worker to refuse it', async () => {
  const shell = { RATE_LIMIT: '3/1s', HOME: '/root', NODE: 'x', CODE: 'y', npm_config_policies: 'z' }
  const variables = await read({ 'wrangler.toml': TOML }, shell)
  expect(Object.keys(variables)).toEqual(['RATE_LIMITS', 'ANONYMOUS', 'STORE_TIMEOUT_MS', 'POLICIES', 'RATE_LIMIT'])
})

test('readVariables() takes a copy of .dev.vars.example for no variable at all', async () => {
  const example = await readFile(join(import.meta.dirname, '../../.dev.vars.example'), 'utf8')
  // A deploy button asks for those that are named: not for those that only some gateways need, or refuse.
  const requested = [...example.matchAll(/^(\w+)=$/gm)].map(([, name]) => name)
  expect(
    [...requested, 'DECIDE_TOKEN', 'JWT_SECRET', 'METRICS_TOKEN', 'REDIS_SHARDS', 'UPSTREAM_SECRET'].toSorted(),
  ).toEqual([...SECRETS].toSorted())
  expect(await read({ 'wrangler.toml': TOML, '.dev.vars': example })).toEqual(await read({ 'wrangler.toml': TOML }))
})

test('readVariables() takes quoted JSON and lines from .dev.vars', async () => {
  const devVars = `POLICIES='[{"name":"a, #1"}]'\nIDENTITY_SECRET="two\nlines"\n`
  expect(await read({ 'wrangler.toml': TOML, '.dev.vars': devVars })).toMatchObject({
    POLICIES: '[{"name":"a, #1"}]',
    IDENTITY_SECRET: 'two\nlines',
  })
})
