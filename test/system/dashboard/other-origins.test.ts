/** Pages of other origins, in a real Chromium: what they can read of the gateway's answers. */
import type { Page } from 'playwright-core'
import { beforeAll, expect, inject, onTestFinished, test } from 'vitest'
import { startBrowser } from '../../support/browser.ts'
import { type DirectGateway, startDirectGateway } from '../../support/direct-gateway.ts'
import { share } from '../../support/share.ts'
import { startUpstream } from '../../support/upstream.ts'

const reached: string[] = []
const browser = share(startBrowser, (browser) => browser.close())
/** Serves the page, and is no part of the API. */
const site = share(() =>
  startUpstream((_, response) => response.setHeader('Content-Type', 'text/html').end('<title>App</title>')),
)
/** An API with CORS of its own, which counts what reaches it. */
const api = share(() =>
  startUpstream(({ method }, response) => {
    reached.push(`${method}`)
    response.setHeader('Access-Control-Allow-Origin', site.url)
    response.setHeader('Access-Control-Allow-Headers', 'Authorization')
    response.setHeader('Access-Control-Allow-Methods', 'GET, PUT')
    response.end('hello')
  }),
)
let page: Page
beforeAll(async () => {
  page = await browser.newPage()
  await page.goto(site.url)
})

async function startGateway(bindings: Readonly<Record<string, unknown>>): Promise<DirectGateway> {
  const gateway = await startDirectGateway({
    bundle: inject('bundle'),
    bindings: { UPSTREAM_URL: api.url, RATE_LIMITS: '1/1h', ...bindings },
  })
  onTestFinished(() => gateway.stop())
  reached.length = 0
  return gateway
}

interface Read {
  readonly status: number
  readonly fields: readonly (string | null)[]
  readonly body: string
}

/** What a script of the page reads: `TypeError` if the browser keeps it from doing so. */
function read({ url }: DirectGateway, path: string, init: object = {}): Promise<Read | string> {
  const request = JSON.stringify([new URL(path, url), init])
  return page.evaluate(`fetch(...${request}).then(
    async (response) => ({
      status: response.status,
      fields: ['RateLimit', 'RateLimit-Policy', 'Retry-After'].map((name) => response.headers.get(name)),
      body: await response.text(),
    }),
    (error) => error.name,
  )`)
}

const POLICY = '"default-1h";q=1;w=3600'
const PUT = { method: 'PUT', headers: { Authorization: 'Bearer me' } }

test('a page reads refusals, fields and its limits, and its preflights are not counted', async () => {
  const gateway = await startGateway({ CORS_ORIGINS: site.url, SELF_SERVICE: 'on' })
  const limits = await read(gateway, '/_sluice/limits', { headers: { Authorization: 'Bearer me' } })
  expect(limits).toMatchObject({ status: 200, fields: ['"default-1h";r=1;t=3600', POLICY, null] })
  const admitted = await read(gateway, '/', PUT)
  expect(admitted).toEqual({ status: 200, fields: ['"default-1h";r=0;t=3600', POLICY, null], body: 'hello' })
  const refused = (await read(gateway, '/', PUT)) as Read
  expect(refused.status).toBe(429)
  expect(refused.fields).toEqual([
    expect.stringMatching(/^"default-1h";r=0;t=\d+$/),
    POLICY,
    expect.stringMatching(/^\d+$/),
  ])
  expect(JSON.parse(refused.body)).toMatchObject({ code: 'limit_exceeded' })
  expect(new Set(reached)).toEqual(new Set(['OPTIONS', 'PUT']))
  expect(reached.filter((method) => method === 'PUT')).toEqual(['PUT'])
})

test('a page that sends cookies reads refusals, too', async () => {
  const gateway = await startGateway({ CORS_ORIGINS: site.url })
  // The API does not allow cookies, so its own answer stays unread.
  expect(await read(gateway, '/', { credentials: 'include' })).toBe('TypeError')
  expect(await read(gateway, '/', { credentials: 'include' })).toMatchObject({ status: 429 })
})

test('without CORS_ORIGINS, it reads what the API lets it, and of a refusal nothing', async () => {
  const gateway = await startGateway({ RATE_LIMITS: '2/1h' })
  const headers = { headers: { Authorization: 'Bearer me' } }
  for (let i = 0; i < 2; i++) {
    expect(await read(gateway, '/', headers)).toEqual({ status: 200, fields: [null, null, null], body: 'hello' })
  }
  expect(await read(gateway, '/', headers)).toBe('TypeError')
})

test('a browser that navigates gets the page of a refusal, in which nothing runs, or is redirected', async () => {
  const html =
    '<title>Later</title><style>p { color: rgb(1, 2, 3) }</style><p>{retry_after}</p><script>document.title = "ran"</script>'
  const gateway = await startGateway({
    RATE_LIMITS: 'off',
    POLICIES: [
      { name: 'page', limits: '1/1h', match: '/page', refusal: { html } },
      { name: 'gone', limits: '1/1h', match: '/gone', refusal: { redirect: 'https://upgrade.invalid/plans' } },
    ],
  })
  const own = await browser.newPage()
  onTestFinished(() => own.close())
  const open = (path: string) => own.goto(new URL(path, gateway.url).href)
  expect((await open('/page'))?.status()).toBe(200)
  expect((await open('/page'))?.status()).toBe(429)
  expect(await own.title()).toBe('Later')
  expect(await own.locator('p').textContent()).toMatch(/^\d+$/)
  expect(await own.evaluate("getComputedStyle(document.querySelector('p')).color")).toBe('rgb(1, 2, 3)')
  expect((await open('/gone'))?.status()).toBe(200)
  // Nothing is there; that the browser asks for it is enough.
  const followed = own.waitForEvent('requestfailed')
  await open('/gone').catch(() => {})
  expect((await followed).url()).toBe('https://upgrade.invalid/plans')
})
