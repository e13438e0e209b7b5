/** The dashboard, in a real Chromium, over a gateway that is asked for things meanwhile. */
import { randomUUID } from 'node:crypto'
import type { Browser, Page } from 'playwright-core'
import { afterEach, beforeAll, expect, inject, test } from 'vitest'
import { startRestFront } from '../../../tools/rest-front.ts'
import { PLANTED } from '../../setup/secret-watch.ts'
import { seriousViolations, startBrowser } from '../../support/browser.ts'
import { startDirectGateway } from '../../support/direct-gateway.ts'
import { send } from '../../support/http-client.ts'
import { ADMIN_TOKEN, operate } from '../../support/operator.ts'
import { connectRedis } from '../../support/redis-client.ts'
import { share } from '../../support/share.ts'
import { signToken } from '../../support/tokens.ts'
import { startUpstream } from '../../support/upstream.ts'

const IP = '203.0.113.40'
const keyPrefix = `dashboard-${randomUUID()}`
const JWT_SECRET = `${PLANTED}-that-signs-tokens`

/** Rules that the colours of a page can break; all others hold in each colour scheme or in none. */
const OF_COLOURS = ['color-contrast', 'link-in-text-block']

let page: Page
/** What was asked of anybody else, and what a page complained about. */
const wrong: string[] = []

const browser = share(startBrowser, (started) => started.close())
const upstream = share(() => startUpstream((_request, response) => response.end()))
const front = share(() => startRestFront({ redisPort: inject('redisPort'), token: `${PLANTED}-rest-token` }))
const gateway = share(() => {
  const bindings = {
    UPSTREAM_URL: upstream.url,
    UPSTASH_REDIS_REST_URL: front.url,
    UPSTASH_REDIS_REST_TOKEN: front.token,
    STORE_MIRROR: 'durable-object',
    // A slow machine is no reason to count on one's own.
    STORE_TIMEOUT_MS: 30_000,
    KEY_PREFIX: keyPrefix,
    RATE_LIMITS: '10/1h, 100/1d',
    POLICIES: [
      { name: 'login', limits: '5/1h', by: 'ip', match: 'POST /login' },
      { name: 'users', limits: '9/1h', by: 'claim:/account/id', match: 'GET /users' },
      { name: 'slots', limits: '5', algorithm: 'concurrency', slot_ttl: '5m', by: 'ip', match: 'GET /slots' },
      {
        name: 'orders',
        limits: '4/1h',
        burst: 8,
        algorithm: 'token-bucket',
        by: 'json:/user/id',
        match: 'POST /orders',
      },
      { name: 'ban', limits: '3/1h', cost: 2, penalty: '10m', penalty_after: 2, by: 'ip', match: 'GET /ban' },
      {
        name: 'tariff',
        limits: { free: '2/1h', pro: '20/1h' },
        plan: 'header:x-plan',
        default_plan: 'free',
        match: 'GET /tariff',
      },
      { name: 'total', limits: '1/1h', by: 'global', match: 'GET /total' },
      { name: 'search', limits: '1/1h', by: 'token+route', match: 'GET /search' },
    ],
    JWT_SECRET,
    RULES: 'on',
    RULES_REFRESH_MS: 100,
    STATISTICS: 'on',
    ADMIN_TOKEN,
  }
  return startDirectGateway({ bundle: inject('bundle'), bindings, objects: 'disk' })
})
beforeAll(async () => {
  page = await openPage()
})
afterEach(() => expect(wrong.splice(0)).toEqual([]))

async function openPage(options: Parameters<Browser['newContext']>[0] = {}): Promise<Page> {
  const context = await browser.newContext({ baseURL: gateway.url.href, ...options })
  const opened = await context.newPage()
  opened.on('request', (request) => {
    const url = new URL(request.url())
    if (url.protocol !== 'data:' && url.origin !== gateway.url.origin) wrong.push(`asked for ${url}`)
  })
  opened.on('console', (message) => {
    // A refused log-in, and a gateway that goes away, are errors to the console.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) wrong.push(message.text())
  })
  opened.on('pageerror', (error) => wrong.push(error.message))
  return opened
}

async function logIn(into: Page, token = ADMIN_TOKEN): Promise<void> {
  await into.goto('/_sluice/')
  await into.getByLabel('Admin token').fill(token)
  await into.getByRole('button', { name: 'Log in' }).click()
}

async function expectAccessible(into: Page): Promise<void> {
  await into.emulateMedia({ colorScheme: 'light' })
  expect(await seriousViolations(into)).toEqual([])
  await into.emulateMedia({ colorScheme: 'dark' })
  expect(await seriousViolations(into, OF_COLOURS)).toEqual([])
}

async function call(path = '/', headers: Record<string, string> = {}, method = 'GET'): Promise<number> {
  return (await send(gateway.url, { path, method, headers: { 'CF-Connecting-IP': IP, ...headers } })).status
}

/** The figure under this name. */
const figure = (name: string) => page.locator('.figure', { has: page.getByText(name, { exact: true }) }).locator('dd')

/** Chooses an action from the menu of a caller, and confirms it once its dialog is filled in. */
async function act(name: string, action: string, fields: Readonly<Record<string, string>> = {}): Promise<void> {
  await page.locator('summary').click()
  await page.getByRole('button', { name: `${name}…` }).click()
  const dialog = page.getByRole('dialog')
  for (const [label, value] of Object.entries(fields)) await dialog.getByLabel(label).fill(value)
  await dialog.getByRole('button', { name: action }).click()
}

/** The row of a table that begins with this. */
const row = (name: string) => page.getByRole('row', { name: new RegExp(`^${name}\\b`) })

test('a wrong token is refused, and the right one opens a session that no script and no other site can use', async () => {
  await logIn(page, 'not-the-token')
  await page.getByText('Invalid token.').waitFor()
  await expectAccessible(page)
  await logIn(page)
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  const cookies = await page.context().cookies(`${gateway.url}_sluice/`)
  expect(cookies).toMatchObject([{ httpOnly: true, secure: true, sameSite: 'Strict', path: '/_sluice/' }])
  expect(cookies[0]?.value).not.toContain(ADMIN_TOKEN)
  expect((cookies[0]?.expires ?? 0) * 1000 - Date.now()).toBeLessThanOrEqual(3_600_000)
  expect(await page.evaluate('document.cookie')).toBe('')
})

test('now shows how the gateway is, and its policies', async () => {
  await expect.poll(() => figure('Store').textContent()).toBe('Redis')
  expect(await figure('Circuit').textContent()).toBe('closed')
  const health = page.getByRole('region', { name: 'Health' })
  // Until all is known, it is not said.
  await expect
    .poll(() => health.textContent())
    .toMatch(/^Nothing is wrongStoreRedis answers in .*Fallbacknot in useRulesnone/)
  expect(await row('login').textContent()).toContain('POST /login')
  expect(await row('slots').textContent()).toContain('5 at once, 5 min each at most')
  expect(await row('orders').textContent()).toContain('4 per 1 hbursts up to 8')
  expect(await row('tariff').textContent()).toContain('free: 2 per 1 hpro: 20 per 1 h')
  expect(await row('ban').textContent()).toContain('3 per 1 h2 units a requestthen none for 10 min, after 2 refusals')
  await expectAccessible(page)
})

test('a caller is looked up by its token, and what it has used grows as it calls', async () => {
  const Authorization = `Bearer ${PLANTED}-${randomUUID()}`
  for (let at = 0; at < 3; at++) expect(await call('/', { Authorization })).toBe(200)
  await page.getByRole('link', { name: 'Callers' }).click()
  await page.getByLabel('Value').fill(Authorization)
  await page.getByRole('button', { name: 'Look up' }).click()
  const meter = page.getByRole('meter', { name: 'default-1h' })
  await expect.poll(() => meter.getAttribute('aria-label')).toBe('default-1h: 3 of 10 used')
  expect(await call('/', { Authorization })).toBe(200)
  await expect.poll(() => meter.getAttribute('aria-label')).toBe('default-1h: 4 of 10 used')
  expect(page.url()).not.toContain(PLANTED)
  await expectAccessible(page)
})

test('a caller is looked up by address, and deleted once that is confirmed', async () => {
  for (let at = 0; at < 5; at++) expect(await call('/login', {}, 'POST')).toBe(200)
  expect(await call('/login', {}, 'POST')).toBe(429)
  // A form that was not filled in right asks for it, and is none of the next one's business.
  await page.getByLabel('Identify by').selectOption('header')
  await page.getByLabel('Value').fill('no-pair')
  await page.getByRole('button', { name: 'Look up' }).click()
  expect(await page.getByLabel('Value').and(page.locator(':invalid')).count()).toBe(1)
  await page.getByLabel('Identify by').selectOption('digest')
  await page.getByRole('button', { name: 'Look up' }).click()
  await page.getByText(/^expected 22 letters/).waitFor()
  expect(await page.getByRole('heading', { level: 2 }).count()).toBe(0)
  await page.getByLabel('Identify by').selectOption('ip')
  await page.getByLabel('Value').fill(IP)
  await page.getByRole('button', { name: 'Look up' }).click()
  const meter = page.getByRole('meter', { name: 'login-1h' })
  await expect.poll(() => meter.getAttribute('aria-label')).toBe('login-1h: 5 of 5 used')
  await act('Reset', 'Cancel')
  expect(await call('/login', {}, 'POST')).toBe(429)
  await act('Reset', 'Reset')
  await page.getByText('Counts reset in').waitFor()
  expect(await call('/login', {}, 'POST')).toBe(200)
})

/** Isolates read the rules every 100 ms. */
async function expectSoon(headers: Record<string, string>, status: number): Promise<void> {
  await expect.poll(() => call('/', headers), { interval: 50 }).toBe(status)
}

async function lookUp(kind: string, value: string): Promise<void> {
  await page.getByRole('link', { name: 'Callers' }).click()
  await page.getByLabel('Identify by').selectOption(kind)
  await page.getByLabel('Value').fill(value)
  await page.getByRole('button', { name: 'Look up' }).click()
}

test('a caller is named as the command names it, by numbers and pointers, and all that are like a value', async () => {
  const token = await signToken({ account: { id: 42 } }, { secret: JWT_SECRET })
  expect(await call('/users', { Authorization: `Bearer ${token}` })).toBe(200)
  const meter = page.getByRole('meter', { name: 'users-1h' })
  await lookUp('claim', '/account/id:=42')
  await expect.poll(() => meter.getAttribute('aria-label')).toBe('users-1h: 1 of 9 used')
  await lookUp('claim', '/account/id=42')
  await expect.poll(() => meter.getAttribute('aria-label')).toBe('users-1h: 0 of 9 used')
  await lookUp('claim', '/account/id:=all')
  expect(await page.getByLabel('Value').and(page.locator(':invalid')).count()).toBe(1)
  await expectAccessible(page)
  await lookUp('header', 'X-Api-Key: k-*')
  await page.getByRole('heading', { name: 'Matching callers' }).waitFor()
  expect(await page.getByRole('meter').count()).toBe(0)
  await act('Block', 'Block')
  await page.getByText('Blocked. Saved as version').waitFor()
  await expectSoon({ 'X-Api-Key': 'k-7' }, 403)
  await expectAccessible(page)
  await page.getByRole('button', { name: 'Unblock' }).click()
  await expectSoon({ 'X-Api-Key': 'k-7' }, 200)
})

test('a caller is blocked and is then refused, until it is unblocked', async () => {
  const Authorization = `Bearer ${PLANTED}-${randomUUID()}`
  await lookUp('token', Authorization)
  expect(await call('/', { Authorization })).toBe(200)
  await act('Block', 'Block', { Reason: 'too much', Duration: '1h' })
  await page.getByText('Blocked. Saved as version').waitFor()
  await expectSoon({ Authorization }, 403)
  await page.getByText(/Blocked until .* \(403\): too much\.$/).waitFor()
  await page.getByRole('button', { name: 'Unblock' }).click()
  await page.getByText('Unblocked.').waitFor()
  const audit = page.getByRole('region', { name: 'Audit log' }).getByRole('row')
  await expect.poll(() => audit.allTextContents()).toHaveLength(3)
  expect((await audit.allTextContents()).join()).toMatch(/block removed.*block/s)
  await expectSoon({ Authorization }, 200)
  // What does not apply is not offered.
  await expect.poll(() => page.getByRole('button', { name: /^(Unblock|Remove)/ }).count()).toBe(0)
})

test('a dialog stays open for a wrong duration, names it, and keeps the reason', async () => {
  const Authorization = `Bearer ${PLANTED}-${randomUUID()}`
  await lookUp('token', Authorization)
  await act('Block', 'Block', { Reason: 'too much', Duration: '1 hour' })
  const dialog = page.getByRole('dialog')
  await dialog.getByText(/^Duration: expected a duration/).waitFor()
  expect(await dialog.getByLabel('Reason').inputValue()).toBe('too much')
  expect(await page.evaluate('document.activeElement?.getAttribute("name")')).toBe('for')
  await expectAccessible(page)
  await dialog.getByLabel('Duration').fill('1h')
  await dialog.getByRole('button', { name: 'Block' }).click()
  await page.getByText(/Blocked until .* \(403\): too much\.$/).waitFor()
  await page.getByRole('button', { name: 'Unblock' }).click()
  await page.getByText('Unblocked.').waitFor()
})

test('a caller with an override and a plan that is not known is limited on none that it may not have', async () => {
  const Authorization = `Bearer ${PLANTED}-${randomUUID()}`
  for (let at = 0; at < 5; at++) expect(await call('/tariff', { Authorization, 'X-Plan': 'pro' })).toBe(200)
  await operate(gateway.url, '/override', { body: { target: { token: Authorization }, multiplier: 2 } })
  await lookUp('token', Authorization)
  await page.getByText('Limited if it is on the plan free, which is not known here. Not blocked.').waitFor()
  await page.getByText('(a rule; others 2)').waitFor()
  await page.getByLabel('Plan of this caller').selectOption('pro')
  await page.getByRole('meter', { name: 'tariff-1h, on pro: 5 of 40 used' }).waitFor()
  await page.getByText('Within all limits. Not blocked.').waitFor()
  await page.getByRole('button', { name: 'Remove override' }).click()
})

test('a caller whose plan is not known is shown on each, and is not said to be limited on a guess', async () => {
  const Authorization = `Bearer ${PLANTED}-${randomUUID()}`
  for (let at = 0; at < 3; at++) expect(await call('/tariff', { Authorization, 'X-Plan': 'pro' })).toBe(200)
  await lookUp('token', Authorization)
  await page.getByText('Limited if it is on the plan free, which is not known here. Not blocked.').waitFor()
  const meter = (plan: string) => page.getByRole('meter', { name: `tariff-1h, if on ${plan}` })
  expect(await meter('free').getAttribute('aria-label')).toContain('3 of 2 used')
  expect(await meter('pro').getAttribute('aria-label')).toContain('3 of 20 used')
  // Somebody who knows its plan says so.
  await page.getByLabel('Plan of this caller').selectOption('pro')
  await page.getByText('Within all limits. Not blocked.').waitFor()
  await page.getByRole('meter', { name: 'tariff-1h, on pro: 3 of 20 used' }).waitFor()
  expect(await page.getByRole('meter', { name: /tariff-1h.*free/ }).count()).toBe(0)
  await expectAccessible(page)
  await expectAccessible(page)
})

test('a caller is allowed more than its limits, and is limited again', async () => {
  const Authorization = `Bearer ${PLANTED}-${randomUUID()}`
  for (let at = 0; at < 10; at++) expect(await call('/', { Authorization })).toBe(200)
  expect(await call('/', { Authorization })).toBe(429)
  await lookUp('token', Authorization)
  await act('Allow', 'Allow')
  await page.getByText('Allowed. Saved as version').waitFor()
  await expectSoon({ Authorization }, 200)
  await page.getByRole('button', { name: 'Remove allow' }).click()
  await page.getByText('Limited again. Saved as version').waitFor()
  await expectSoon({ Authorization }, 429)
})

test('a limit is raised for one caller, and is the usual one again', async () => {
  const Authorization = `Bearer ${PLANTED}-${randomUUID()}`
  for (let at = 0; at < 10; at++) expect(await call('/', { Authorization })).toBe(200)
  expect(await call('/', { Authorization })).toBe(429)
  await lookUp('token', Authorization)
  const meter = page.getByRole('meter', { name: 'default-1h' })
  await expect.poll(() => meter.getAttribute('aria-label')).toBe('default-1h: 10 of 10 used')
  await act('Change limits', 'Set limits', { 'New limits': '50/1h, 100/1d', Duration: '1h' })
  await expectSoon({ Authorization }, 200)
  await expect.poll(() => meter.getAttribute('aria-label')).toBe('default-1h: 11 of 50 used')
  await expectAccessible(page)
  await page.getByRole('button', { name: 'Remove override' }).click()
  await expectSoon({ Authorization }, 429)
  await page.locator('summary').click()
  await page.getByRole('button', { name: 'Change limits…' }).click()
  await page.getByLabel('Become').selectOption('multiplier')
  await page.getByLabel('New limits').fill('3')
  await expectAccessible(page)
  await page.getByRole('button', { name: 'Set limits' }).click()
  await expect.poll(() => meter.getAttribute('aria-label')).toMatch(/^default-1h: \d+ of 30 used$/)
  await page.getByRole('button', { name: 'Remove override' }).click()
  await expect.poll(() => meter.getAttribute('aria-label')).toMatch(/ of 10 used$/)
})

test('a caller is named by a member of a body, and other limits begin with those of the policy that counts it', async () => {
  const body = JSON.stringify({ user: { id: 42 } })
  const order = () => send(gateway.url, { path: '/orders', method: 'POST', body, headers: { 'CF-Connecting-IP': IP } })
  expect((await order()).status).toBe(200)
  await lookUp('json', '/user/id=42')
  const meter = page.getByRole('meter', { name: 'orders-1h' })
  await expect.poll(() => meter.getAttribute('aria-label')).toBe('orders-1h: 1 of 8 used')
  await act('Change limits', 'Set limits', { 'New limits, such as 8/1h': '8/1h' })
  await page.getByText(/^Limits changed\. .* where a policy counts by this alone\.$/).waitFor()
  await expect.poll(() => meter.getAttribute('aria-label')).toBe('orders-1h: 1 of 16 used')
  await act('Block', 'Block')
  await expect.poll(async () => (await order()).status, { interval: 50 }).toBe(403)
  await page.getByRole('button', { name: 'Unblock' }).click()
  await expect.poll(async () => (await order()).status, { interval: 50 }).toBe(200)
  await page.getByRole('button', { name: 'Remove override' }).click()
  await page.getByText('Override removed.').waitFor()
})

test('policies are checked as they are typed, pushed and rolled back', async () => {
  const headers = { Authorization: `Bearer ${PLANTED}-${randomUUID()}` }
  expect(await call('/', headers)).toBe(200)
  await operate(gateway.url, '/block', { body: { target: { asn: 64500 }, for: '1s' } })
  await page.getByRole('link', { name: 'Rules' }).click()
  // The page asks every five seconds; the next edit drops it.
  await page.getByRole('row', { name: /^Ended: Block AS64500/ }).waitFor()
  const editor = page.getByLabel('Policies (JSON)')
  await expect.poll(() => editor.inputValue()).toContain('"login"')
  const push = page.getByRole('button', { name: 'Activate' })
  await page.getByText('Valid; no changes.').waitFor()
  await editor.fill('[{"name": "login", "limits": "5/1h", "by": "ip"')
  await page.getByText('Not a JSON array.').waitFor()
  await editor.fill('[{"name": "login", "limit": "5/1h"}]')
  await page.getByText('unknown setting').waitFor()
  expect(await push.isDisabled()).toBe(true)
  await expectAccessible(page)
  await editor.fill('[{"name": "tight", "limits": "1/1h"}]')
  await page
    .getByText(
      'Valid: removes login, removes users, removes slots, removes orders, removes ban, removes tariff, removes total, removes search, adds tight.',
    )
    .waitFor()
  await push.click()
  await page.getByRole('dialog').getByRole('button').first().click()
  await page.getByText('Activated (version').waitFor()
  await expectSoon(headers, 429)
  const rollBack = page.getByRole('button', { name: /^Roll back to version/ })
  await rollBack.first().click()
  await page.getByRole('heading', { name: /^Roll back the policies to version/ }).waitFor()
  await page.getByRole('dialog').getByRole('button').first().click()
  await page.getByText(/^Rolled back to/).waitFor()
  await expectSoon(headers, 200)
  // The text follows what is active, unless it has been edited.
  await expect.poll(() => editor.inputValue()).toContain('"login"')
  await editor.fill('[{"name": "mine", "limits": "1/1h"}]')
  await page.getByText(/^Valid: .* adds mine\.$/).waitFor()
  const policies = [{ name: 'theirs', limits: '2/1h' }]
  await operate(gateway.url, '/policies/push', { body: { policies } })
  await page.getByText('Other policies have become active since this text was loaded.').waitFor()
  expect(await editor.inputValue()).toContain('"mine"')
  await page.getByRole('button', { name: 'Load them' }).click()
  expect(await editor.inputValue()).toContain('"theirs"')
  await page.getByRole('button', { name: 'Use deployed policies' }).click()
  await page.getByRole('dialog').getByRole('button').first().click()
  await expect.poll(() => editor.inputValue()).toContain('"login"')
})

test('a policy is changed in the form, and the difference is shown before it is activated', async () => {
  const editor = page.getByLabel('Policies (JSON)')
  const deployed = await editor.inputValue()
  await page.getByLabel('Policy to edit').selectOption('login')
  await page.getByLabel('limits', { exact: true }).fill('7/1h')
  expect(JSON.parse(await editor.inputValue())).toContainEqual(
    expect.objectContaining({ name: 'login', limits: '7/1h' }),
  )
  await page.getByText(/^Valid: changes login/).waitFor()
  await page.getByRole('button', { name: 'Activate' }).click()
  expect(await page.getByRole('dialog').getByRole('listitem').allTextContents()).toEqual([
    '± login changedlimits: "5/1h" → "7/1h"',
  ])
  await expectAccessible(page)
  await page.getByRole('button', { name: 'Cancel' }).click()
  await editor.fill(deployed)
})

test('a policy is tried in shadow mode alongside the others, and what it would have refused is shown', async () => {
  const editor = page.getByLabel('Policies (JSON)')
  const deployed = await editor.inputValue()
  const trial = { name: 'trial', limits: '1/1h', by: 'token', mode: 'shadow' }
  await editor.fill(JSON.stringify([...JSON.parse(deployed), trial]))
  await page.getByText('Valid: adds trial.').waitFor()
  await page.getByRole('button', { name: 'Activate' }).click()
  await page.getByRole('dialog').getByRole('button').first().click()
  await page.getByText('Activated (version').waitFor()
  await page.getByRole('link', { name: 'Overview' }).click()
  const rows = page.getByRole('region', { name: 'Active policies' }).getByRole('row')
  const shown = page.getByRole('region', { name: 'Limits with most refusals' }).getByText('would be refused')
  // Isolates send what they count every 20 seconds, and the page asks twice as often.
  const exceed = async () => {
    const headers = { Authorization: `Bearer ${PLANTED}-${randomUUID()}` }
    return [await call('/', headers), await call('/', headers), await shown.count()]
  }
  await expect.poll(exceed, { interval: 500, timeout: 50_000 }).toEqual([200, 200, 1])
  const column = (await rows.first().getByRole('columnheader').allTextContents()).findIndex((head) =>
    /would/.test(head),
  )
  const cells = await rows.filter({ hasText: 'trial' }).locator('th, td').allTextContents()
  expect([cells[0], Number(cells[column])]).toEqual([
    expect.stringContaining('(shadow mode)'),
    expect.toSatisfy((count) => count > 0),
  ])
  await page.getByRole('link', { name: 'Rules' }).click()
  await page.getByRole('button', { name: 'Use deployed policies' }).click()
  await page.getByRole('dialog').getByRole('button').first().click()
  await expect.poll(() => editor.inputValue()).toBe(deployed)
})

test('a network is blocked on the page, and the confirmation names it', async () => {
  await page.getByLabel('Network, country or ASN').fill('192.0.2.0/24')
  await page.getByRole('button', { name: 'Add', exact: true }).click()
  await page.getByRole('heading', { name: 'Block 192.0.2.0/24?' }).waitFor()
  await expectAccessible(page)
  await page.getByRole('dialog').getByRole('button', { name: 'Block' }).click()
  await page.getByText('Added (version').waitFor()
  await expect.poll(() => call('/', { 'CF-Connecting-IP': '192.0.2.7' }), { interval: 50 }).toBe(403)
  const row = page.getByRole('row').filter({ hasText: '192.0.2.0/24' })
  await expect.poll(() => row.getByRole('cell').allTextContents()).toContain('1')
  await page.getByRole('button', { name: 'Remove: Block, 192.0.2.0/24' }).click()
  await page.getByText('Removed (version').waitFor()
})

const SEARCHER = { Authorization: `Bearer ${PLANTED}-searches` }

test('numbers move under load, and lead to who is refused most', async () => {
  await page.getByRole('link', { name: 'Overview' }).click()
  const shown = async (name: string) => {
    const text = (await figure(name).count()) > 0 ? await figure(name).textContent() : null
    return Number(text?.replaceAll(',', '') ?? 0)
  }
  // Isolates send what they count every 20 seconds, and the page asks twice as often.
  await expect.poll(() => shown('Admitted')).toBeGreaterThan(0)
  const before = { admitted: await shown('Admitted'), refused: await shown('Refused') }
  for (let at = 0; at < 3; at++) for (const path of ['/total', '/search']) await call(path, SEARCHER)
  for (let at = 0; at < 30; at++) await call('/', { Authorization: 'Bearer the-busiest' })
  await expect.poll(() => shown('Admitted')).toBeGreaterThanOrEqual(before.admitted + 10)
  await expect.poll(() => shown('Refused')).toBeGreaterThanOrEqual(before.refused + 20)
  const plot = page.getByRole('region', { name: /admitted and .* refused/ })
  expect(await plot.locator('.bar').count()).toBeGreaterThan(1)
  const moment = plot.getByRole('slider')
  await moment.focus()
  const latest = await moment.getAttribute('aria-valuetext')
  await moment.press('ArrowLeft')
  expect(await moment.getAttribute('aria-valuetext')).not.toBe(latest)
  expect(await page.getByText('default-1h').first().isVisible()).toBe(true)
  expect(await shown('Compared decisions')).toBeGreaterThan(20)
  // It may be asked about a refusal before it was charged what the admission before that has cost.
  expect(Number.parseFloat((await figure('Agreement').textContent()) ?? '')).toBeGreaterThan(90)
  expect(await shown('Failed calls')).toBe(0)
  await expectAccessible(page)
  const busiest = page.getByRole('region', { name: 'Most refused callers' }).getByRole('row').nth(1)
  await busiest.getByRole('link').click()
  await expect
    .poll(() => page.getByRole('meter', { name: 'default-1h' }).getAttribute('aria-label'))
    .toBe('default-1h: 10 of 10 used')
  const refusals = page.getByRole('region', { name: 'Refusals' }).getByRole('row').nth(1)
  expect(await refusals.textContent()).toContain('default')
  await expectAccessible(page)
})

test('who is refused most is everyone, or a digest of which it is said where rules about it hold', async () => {
  const refused = page.getByRole('region', { name: 'Most refused callers' }).getByRole('row')
  await page.getByRole('link', { name: 'Overview' }).click()
  const everyone = refused.filter({ hasText: 'everyone' })
  await expect.poll(() => everyone.textContent()).toMatch(/^everyone.*total/)
  expect(await everyone.getByRole('link').count()).toBe(0)
  await refused.filter({ hasText: 'search' }).getByRole('link').click()
  await page.getByText('search (token + route, GET /search)').waitFor()
  await expect.poll(() => page.getByRole('meter').count()).toBe(1)
  await expectAccessible(page)
  await act('Block', 'Block')
  await page.getByText(/^Blocked\. .* where a policy counts by this alone\.$/).waitFor()
  await expect.poll(() => call('/search', SEARCHER), { interval: 50 }).toBe(403)
  expect(await call('/smooth', SEARCHER)).toBe(200)
  await page.getByRole('button', { name: 'Unblock' }).click()
  await page.getByText('Unblocked.').waitFor()
})

test('every view fits a phone', async () => {
  await operate(gateway.url, '/block', { body: { target: { cidr: '2001:db8:1234:5678::/64' }, reason: 'scraping' } })
  const phone = await openPage({ viewport: { width: 320, height: 740 } })
  await logIn(phone)
  for (const view of ['Overview', 'Callers', 'Rules']) {
    await phone.getByRole('link', { name: view }).click()
    await phone.getByRole('heading', { name: view, exact: true }).waitFor()
    if (view === 'Rules')
      await phone
        .getByRole('button', { name: /^Remove: / })
        .first()
        .waitFor()
    expect(await phone.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(320)
    await expectAccessible(phone)
  }
  await phone.getByRole('link', { name: 'Callers' }).click()
  await phone.getByLabel('Value').fill('any-token')
  await phone.getByRole('button', { name: 'Look up' }).click()
  await phone.locator('summary').click()
  const item = await phone.getByRole('button', { name: 'Block…' }).boundingBox()
  expect(item?.x).toBeGreaterThanOrEqual(0)
  expect((item?.x ?? 0) + (item?.width ?? 0)).toBeLessThanOrEqual(320)
  await expectAccessible(phone)
  await phone.context().close()
})

test('all of it can be done by keyboard', async () => {
  const keyboard = await openPage()
  await keyboard.goto('/_sluice/')
  await keyboard.getByLabel('Admin token').waitFor()
  await expect.poll(() => keyboard.evaluate('document.activeElement?.id')).toBe('token')
  await keyboard.keyboard.type(ADMIN_TOKEN)
  await keyboard.keyboard.press('Enter')
  await keyboard.getByRole('heading', { name: 'Overview' }).waitFor()
  await expect.poll(() => keyboard.evaluate('document.activeElement?.textContent')).toBe('Overview')
  const reached: string[] = []
  for (let at = 0; at < 4; at++) {
    await keyboard.keyboard.press('Shift+Tab')
    reached.push(String(await keyboard.evaluate('document.activeElement?.textContent')))
  }
  expect(reached).toEqual(expect.arrayContaining(['Overview', 'Callers', 'Rules', 'Log out']))
  await keyboard.goto('/_sluice/#caller')
  await keyboard.getByLabel('Value').focus()
  await keyboard.keyboard.type('any-token')
  await keyboard.keyboard.press('Enter')
  await keyboard.locator('summary').focus()
  await keyboard.keyboard.press('Enter')
  await keyboard.getByRole('button', { name: 'Reset…' }).focus()
  // A key that is pressed once too often does no harm.
  await keyboard.keyboard.press('Enter')
  expect(await keyboard.evaluate('document.activeElement?.textContent')).toBe('Cancel')
  await keyboard.keyboard.press('Enter')
  expect(await keyboard.getByRole('dialog').count()).toBe(0)
  expect(await keyboard.getByText('Counts reset in').count()).toBe(0)
  await keyboard.context().close()
})

test('without a session, a page of the dashboard shows nothing, and logging out ends it', async () => {
  const other = await openPage()
  await logIn(other)
  await other.getByRole('button', { name: 'Log out' }).click()
  await other.getByLabel('Admin token').waitFor()
  expect(await other.context().cookies(`${gateway.url}_sluice/`)).toEqual([])
  expect(await other.evaluate("fetch('/_sluice/admin/status').then(({ status }) => status)")).toBe(401)
  await other.context().close()
})

test('rules that the store has lost are said to be, and are written back', async () => {
  await operate(gateway.url, '/block', { body: { target: { cidr: '192.0.2.0/25' } } })
  await expect.poll(() => call('/', { 'CF-Connecting-IP': '192.0.2.7' }), { interval: 50 }).toBe(403)
  const redis = await connectRedis(inject('redisPort'))
  await redis.del(`${keyPrefix}:rules`)
  redis.destroy()
  await page.getByRole('link', { name: 'Rules' }).click()
  await page.getByText('The rules are gone from the store. This isolate still enforces version').waitFor()
  await page.getByRole('row').filter({ hasText: '192.0.2.0/25' }).waitFor()
  await page.getByRole('alert').filter({ hasText: 'The rules are gone from the store' }).waitFor()
  await expectAccessible(page)
  await page.getByRole('button', { name: 'Write them back' }).click()
  await page.getByText('Version 1 is active.').waitFor()
  expect(await call('/', { 'CF-Connecting-IP': '192.0.2.7' })).toBe(403)
  await page.getByRole('button', { name: 'Remove: Block, 192.0.2.0/25' }).click()
})

// Last: nothing comes back after it.
test('when Redis is lost, it is said', async () => {
  await page.getByRole('link', { name: 'Overview' }).click()
  await front.stop()
  await page
    .getByRole('alert')
    .filter({ hasText: 'Redis is unavailable; local decides: each isolate counts by itself.' })
    .waitFor()
  await expect.poll(() => figure('Latency now').textContent()).toBe('no answer')
  expect(await figure('Circuit').count()).toBe(0)
  await expectAccessible(page)
})
