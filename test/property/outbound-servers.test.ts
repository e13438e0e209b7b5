/** What `outbound()` makes of the limits of real servers, by models of them: see `npm run bench:outbound` for all figures. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { OutboundOptions } from '../../src/outbound.ts'
import { createOwnClient } from '../support/outbound/own-client.ts'
import { CIRCUMSTANCES, PROVIDERS, type Provider } from '../support/outbound/providers.ts'
import { type Figures, runLoad } from '../support/outbound/run-load.ts'

/** Of each server. The first ones find out about it. */
const CALLS = 1_500

const MIN_DONE = { limiter: 0.95, reports: 0.95, refusals: 0.85 }
const MAX_REFUSED = { limiter: 0.03, reports: 0.01, refusals: 0.03 }

/** What is not kept, as the docs say. */
const EXCEPTIONS: Readonly<Record<string, Partial<Figures>>> = {
  // Processes that share nothing but the server.
  'Sluice, two processes': { refused: 0.02 },
  'Sluice, eight processes': { refused: 0.08, needlessMs: 3_500 },
}

async function expectFigures(provider: Provider, answerMs: number): Promise<void> {
  const { limit, windowMs } = provider.named
  const horizonMs = Math.min(provider.horizonMs, (CALLS / limit) * windowMs)
  const { done, refused, needlessMs } = await runLoad({ ...provider, horizonMs }, createOwnClient, answerMs)
  const exception = EXCEPTIONS[provider.name]
  expect(done).toBeGreaterThanOrEqual(MIN_DONE[provider.evidence])
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
