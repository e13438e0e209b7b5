/** What tells the API that a request comes through the gateway. */
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { findFreePort } from '../../tools/free-port.ts'
import { PLANTED } from '../setup/secret-watch.ts'
import { startGateway } from '../support/gateway.ts'
import { type Sent, send } from '../support/http-client.ts'
import { readPage } from '../support/markdown.ts'
import { share } from '../support/share.ts'
import { startOwnThreatenedGateway, startThreatenedGateway } from '../support/threatened-gateway.ts'

const ROOT = join(import.meta.dirname, '../..')
const SECRET = `${PLANTED}-by-which-the-api-knows-it`

const gateway = share(() => startThreatenedGateway({ UPSTREAM_SECRET: SECRET }))

/** What the API gets under that name, in any spelling. */
async function secretsIn(sent: Sent, through = gateway) {
  through.upstream.take()
  const { status } = await send(through.url, sent)
  const [request, ...others] = through.upstream.take()
  expect(others).toEqual([])
  const found = Object.entries(request?.headers ?? {}).filter(([name]) => /^sluice.?secret$/i.test(name))
  return request ? found : status
}

test.each<Sent>([
  {},
  { method: 'POST', body: 'hello' },
  { headers: { 'Sluice-Secret': 'forged' } },
  { headers: { 'sluice-secret': ['forged', 'twice'] } },
  { headers: { sluice_secret: 'forged', 'Sluice.Secret': 'forged' } },
  { headers: { 'Sluice-Secret': '' } },
])('the API gets the secret, and only that: %j', async (sent) => {
  expect(await secretsIn(sent)).toEqual([['sluice-secret', SECRET]])
})

test('a client cannot have it removed', async () => {
  const headers = { Connection: 'Sluice-Secret', 'Sluice-Secret': 'forged' }
  expect(await secretsIn({ headers })).toBe(400)
  expect(await secretsIn({ headers: { Connection: 'Sluice-Secret' } })).toEqual([['sluice-secret', SECRET]])
})

test('without a secret, what a client sends does not pass for one either', async () => {
  const own = await startOwnThreatenedGateway()
  expect(await secretsIn({ headers: { 'Sluice-Secret': 'forged' } }, own)).toEqual([])
})

test('no answer and no line of the log holds it', async () => {
  const answer = await send(gateway.url, { path: '/_sluice/health' })
  expect(JSON.stringify([answer, gateway.log])).not.toContain(SECRET)
})

const { code } = await readPage(join(ROOT, 'docs/gateway.md'))
const EXAMPLES = code
  .filter(({ language, text }) => language === 'js' && text.includes('Sluice-Secret'))
  .map(({ text }) => ({ text, framework: /express|Hono/.exec(text)?.[0] }))

/** Runs an API as the documentation has it. */
async function startApi(text: string, secrets: string): Promise<string> {
  const port = await findFreePort()
  const env = { ...process.env, PORT: `${port}`, UPSTREAM_SECRET: secrets }
  const api = spawn(process.execPath, ['--input-type=module', '--eval', text], { cwd: ROOT, env, stdio: 'inherit' })
  onTestFinished(() => void api.kill())
  const url = `http://127.0.0.1:${port}`
  await expect
    .poll(() =>
      fetch(url).then(
        ({ status }) => status,
        () => undefined,
      ),
    )
    .toBe(403)
  return url
}

describe('an API as in the documentation', () => {
  test.each(EXAMPLES)('with $framework answers only the gateway', async ({ text }) => {
    const url = await startApi(text, `${SECRET} another-one-of-thirty-two-characters`)
    const readStatus = (value?: string) =>
      fetch(url, { headers: { ...(value !== undefined && { 'Sluice-Secret': value }) } }).then(({ status }) => status)
    expect(await Promise.all([undefined, '', 'forged', SECRET.slice(1), `${SECRET}x`].map(readStatus))).toEqual(
      Array(5).fill(403),
    )
    const through = await startGateway({ UPSTREAM_URL: url, UPSTREAM_SECRET: SECRET })
    onTestFinished(() => through.stop())
    const response = await fetch(through.url, { headers: { 'Sluice-Secret': 'forged' } })
    expect([response.status, await response.text()]).toEqual([200, 'hello'])
    const without = await startGateway({ UPSTREAM_URL: url })
    onTestFinished(() => without.stop())
    expect((await fetch(without.url)).status).toBe(403)
  })

  test('is there for Express', () => {
    expect(EXAMPLES.map(({ framework }) => framework)).toEqual(['express'])
  })
})
