/** What `outbound()` makes of the limits of real servers, by models of them: see `npm run bench:outbound` for all figures. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { type OutboundOptions, outbound } from '../../src/outbound.ts'
import { createOwnClient } from '../support/outbound/own-client.ts'
import { CIRCUMSTANCES, PROVIDERS, type Provider } from '../support/outbound/providers.ts'
import { type Figures, runLoad } from '../support/outbound/run-load.ts'
import { CALM } from '../support/outbound/worlds.ts'
import { VirtualClock } from '../support/virtual-clock.ts'

/** Of each server. The first ones find out about it. */
const CALLS = 1_500

const MIN_DONE = { limiter: 0.95, reports: 0.95, refusals: 0.85 }
const MAX_REFUSED = { limiter: 0.03, reports: 0.01, refusals: 0.03 }

/** What is not kept, as the docs say, by server and answers. */
const EXCEPTIONS: Readonly<Record<string, Partial<Figures>>> = {
  // Processes that share nothing but the server.
  'Sluice, two processes': { refused: 0.04 },
  'Sluice, eight processes': { refused: 0.11, needlessMs: 3_500 },
  // Two limits share three headers, whose seconds are rounded twice.
  'Sluice, x-ratelimit': { needlessMs: 2_100 },
  // Windows of seconds, of which trips and rounding take a share.
  Envoy: { done: 0.93 },
  'Discord, 2000': { done: 0.9 },
  'HubSpot, 10000': { done: 0.94 },
  // The first calls go before an answer tells anything.
  'Anthropic, 2000': { refused: 0.013, needlessMs: 1_700 },
  'Anthropic, 10000': { needlessMs: 1_800 },
  'Kong, 10000': { needlessMs: 2_000 },
  'Sluice, one call in 50 hangs, 10000': { refused: 0.014 },
  // After a refusal, as many calls as were answered before it.
  'Slack, 2000': { needlessMs: 2_300 },
  'Slack, 10000': { needlessMs: 9_500 },
}

async function expectFigures(provider: Provider, answerMs: number): Promise<void> {
  const { limit, windowMs } = provider.named
  const horizonMs = Math.min(provider.horizonMs, (CALLS / limit) * windowMs)
  const world = { ...CALM, answerMs }
  const { done, refused, needlessMs } = await runLoad({ ...provider, horizonMs }, createOwnClient, world)
  const exception = EXCEPTIONS[`${provider.name}, ${answerMs}`] ?? EXCEPTIONS[provider.name]
  expect(done).toBeGreaterThanOrEqual(exception?.done ?? MIN_DONE[provider.evidence])
  expect(refused).toBeLessThanOrEqual(exception?.refused ?? MAX_REFUSED[provider.evidence])
  expect(needlessMs).toBeLessThanOrEqual(exception?.needlessMs ?? 1_500)
}

const inCircumstances = CIRCUMSTANCES.filter(({ aheadMs = 0 }) => aheadMs >= 0)

test.each([...PROVIDERS, ...inCircumstances])(
  '$name: nearly all possible calls are made, few are refused, none waits for nothing',
  (provider) => expectFigures(provider, 50),
)

const SLOW = [
  ...['OpenAI', 'Anthropic', 'Okta', 'X', 'Discord', 'Slack', 'Kong', 'Traefik', 'express-rate-limit', 'GitLab'],
  ...['Reddit', 'HubSpot', 'nothing said, limiter 300/61s', 'Sluice, one call in 50 hangs'],
]

describe.each([2_000, 10_000])('if answers take %i ms', (answerMs) => {
  test.each([...PROVIDERS, ...CIRCUMSTANCES].filter(({ name }) => SLOW.includes(name)))('$name: the same', (provider) =>
    expectFigures(provider, answerMs),
  )
})

/** After a restart in a used window, with trips of unequal length. */
const RESTARTED = { ...CALM, jitterMs: 300, usedShare: 0.8, passedShare: 0.5, restartShare: 0.6 }

test.each(PROVIDERS.filter(({ name }) => ['Okta', 'X', 'express-rate-limit', 'Shopify REST'].includes(name)))(
  '$name, after restarts in used windows: the same',
  async (provider) => {
    const { done, refused } = await runLoad(provider, createOwnClient, RESTARTED)
    expect(done).toBeGreaterThanOrEqual(0.95)
    expect(refused).toBeLessThanOrEqual(0.01)
  },
)

test('Sluice, x-ratelimit, after restarts: a limit of which answers tell no more holds nothing up', async () => {
  const provider = PROVIDERS.find(({ name }) => name === 'Sluice, x-ratelimit') as Provider
  expect((await runLoad(provider, createOwnClient, RESTARTED)).done).toBeGreaterThanOrEqual(0.9)
})

const RECIPES: Readonly<Record<string, readonly string[]>> = {
  GitHub: ['GitHub', 'GitHub, secondary limit'],
  OpenAI: ['OpenAI'],
  Shopify: ['Shopify GraphQL'],
  Stripe: ['Stripe', 'Stripe, concurrency 20'],
  Slack: ['Slack'],
}

/** The options of a recipe, as the docs have them. */
function readRecipe(name: string): OutboundOptions {
  const page = readFileSync(join(import.meta.dirname, '../../docs/outbound.md'), 'utf8')
  const code = new RegExp(`### ${name}\\n[^#]*?\`\`\`js\\noutbound\\(fetch, (.*?)\\)\\n\`\`\``, 's').exec(page)?.[1]
  return new Function(`return (${code})`)() as OutboundOptions
}

describe.each(Object.entries(RECIPES))('the recipe for %s', (recipe, names) => {
  test.each(PROVIDERS.filter(({ name }) => names.includes(name)))('suits $name', async (provider) => {
    await expectFigures({ ...provider, options: readRecipe(recipe) }, 50)
  })
})

test('the recipe for GitHub waits for a minute, then longer, after a secondary limit that names no time', async () => {
  const clock = new VirtualClock()
  const startMs = clock.now()
  const times: number[] = []
  const headers = { 'x-ratelimit-limit': '5000', 'x-ratelimit-remaining': '4000' }
  const fetch = async () => {
    const isRefused = times.push(clock.now() - startMs) <= 2
    return isRefused
      ? new Response('You have exceeded a secondary rate limit', { status: 403, headers })
      : new Response('done', { headers })
  }
  const call = outbound(fetch, { ...readRecipe('GitHub'), clock, random: () => 0, maxWaitMs: Number.POSITIVE_INFINITY })
  expect(await (await clock.finish(call('https://api.example/'))).text()).toBe('done')
  expect(times).toEqual([0, 60_000, 180_000])
})
