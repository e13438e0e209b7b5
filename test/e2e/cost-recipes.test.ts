/** The recipes of docs/recipes.md for costs that responses tell, before models of the APIs that they are for. */
import { readFile } from 'node:fs/promises'
import { parse, type TomlTable } from 'smol-toml'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { DirectGateway } from '../support/direct-gateway.ts'
import { startGateway } from '../support/gateway.ts'
import { send } from '../support/http-client.ts'
import { createLanguageModel, type Form, formatQuestion } from '../support/language-model.ts'
import { startParts } from '../support/parts.ts'
import { startUpstream } from '../support/upstream.ts'

let site: Awaited<ReturnType<typeof start>>
beforeAll(async () => {
  site = await start()
})
afterAll(() => site?.stop())

function start() {
  const answer = createLanguageModel(() => {})
  return startParts(async (add): Promise<{ readonly gateway: DirectGateway }> => {
    const upstream = await add(
      startUpstream((request, response) => {
        if (request.url?.startsWith('/files/')) response.end('x'.repeat(70_000))
        else void answer(request, response)
      }),
    )
    const page = await readFile('docs/recipes.md', 'utf8')
    const recipes = [...page.matchAll(/```toml\n([^`]*actual_cost[^`]*)```/g)].map(([, toml = '']) => parse(toml))
    const POLICIES = recipes.flatMap(({ vars }) => (vars as TomlTable).POLICIES as TomlTable[])
    const variables = { UPSTREAM_URL: upstream.url, RATE_LIMITS: 'off', POLICIES, KEY_PREFIX: crypto.randomUUID() }
    return { gateway: await add(startGateway(variables)) }
  })
}

/** Units that remain of each policy, by its name. */
async function ask(path: string, headers: Record<string, string>, method = 'POST') {
  const answer = await send(site.gateway.url, { method, path, headers })
  expect(answer.status).toBe(200)
  const items = `${answer.headers.ratelimit}`.matchAll(/"([^"]+)";r=(\d+)/g)
  return Object.fromEntries([...items].map(([, name, remaining]) => [name, Number(remaining)]))
}

const [INPUT, OUTPUT] = [400, 30]
const KEY = { openai: 'Authorization', anthropic: 'X-Api-Key', compatible: 'X-Api-Key' } as const

test.each<[Form, isStream: boolean, cost: number, minute: string, month: string]>([
  ['openai', false, INPUT + OUTPUT, 'openai-minute-1m', 'openai-month-month'],
  ['openai', true, INPUT + OUTPUT, 'openai-minute-1m', 'openai-month-month'],
  ['anthropic', false, INPUT + 5 * OUTPUT, 'anthropic-minute-1m', 'anthropic-month-month'],
  ['anthropic', true, INPUT + 5 * OUTPUT, 'anthropic-minute-1m', 'anthropic-month-month'],
  ['compatible', true, INPUT + 5 * OUTPUT, 'anthropic-minute-1m', 'anthropic-month-month'],
])(
  '%s, streamed %j: a key by the minute and its team by the month, %i tokens each',
  async (form, isStream, cost, minute, month) => {
    const path = formatQuestion(form, { input: INPUT, output: OUTPUT, isStream, pauseMs: 1, breaks: false })
    const fields = (key: string) => ({
      [KEY[form]]: `Bearer ${form}-${isStream}-${key}`,
      'X-Team': `${form}-${isStream}`,
    })
    const first = await ask(path, fields('one'))
    expect(first).toMatchObject({ [minute]: 49_999, [month]: 19_999_999 })
    await ask(path, fields('two'))
    // What has been used is known a moment after each answer. These requests themselves have cost one so far.
    let sent = 2
    await expect
      .poll(async () => {
        const before = sent++
        const remaining = await ask(path, fields('two'))
        return [remaining[minute] === 49_999 - (before - 1) * cost, remaining[month] === 19_999_999 - before * cost]
      })
      .toEqual([true, true])
  },
)

test('what is downloaded counts in bytes, a day', async () => {
  const headers = { Authorization: 'Bearer downloads' }
  expect(await ask('/files/a', headers, 'GET')).toEqual({ 'downloads-day': 999_999_999 })
  let sent = 1
  await expect
    .poll(async () => (await ask('/files/a', headers, 'GET'))['downloads-day'] === 999_999_999 - sent++ * 70_000)
    .toBe(true)
})
