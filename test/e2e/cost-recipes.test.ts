/** The recipes of docs/recipes.md for costs that responses tell, before models of the APIs that they are for. */
import { Buffer } from 'node:buffer'
import { readFile } from 'node:fs/promises'
import { gzipSync } from 'node:zlib'
import { parse, type TomlTable } from 'smol-toml'
import { expect, test } from 'vitest'
import { startGateway } from '../support/gateway.ts'
import { send } from '../support/http-client.ts'
import { createLanguageModel, formatQuestion } from '../support/language-model.ts'
import { ADMIN_TOKEN, operate } from '../support/operator.ts'
import { share } from '../support/share.ts'
import { startUpstream } from '../support/upstream.ts'

interface Body {
  readonly type: string
  readonly bytes: string | Buffer
  readonly encoding?: string
}

let body: Body | undefined
const answer = createLanguageModel(() => {})
const upstream = share(() =>
  startUpstream((request, response) => {
    if (!body) return void answer(request, response)
    const { type, bytes, encoding } = body
    response.writeHead(200, { 'Content-Type': type, ...(encoding && { 'Content-Encoding': encoding }) })
    response.end(bytes)
  }),
)
const gateway = share(async () => {
  const page = await readFile('docs/recipes.md', 'utf8')
  const recipes = [...page.matchAll(/```toml\n([^`]*actual_cost[^`]*)```/g)].map(([, toml = '']) => parse(toml))
  const POLICIES = recipes.flatMap(({ vars }) => (vars as TomlTable).POLICIES as TomlTable[])
  return startGateway({ UPSTREAM_URL: upstream.url, RATE_LIMITS: 'off', POLICIES, ADMIN_TOKEN })
})

const events = (...data: readonly unknown[]) => data.map((each) => `data: ${JSON.stringify(each)}\n\n`).join('')
const json = (value: unknown): Body => ({ type: 'application/json', bytes: JSON.stringify(value) })
const stream = (...data: readonly unknown[]): Body => ({ type: 'text/event-stream', bytes: events(...data) })
const [INPUT, OUTPUT] = [400, 30]
const ask = (form: 'openai' | 'anthropic' | 'compatible', isStream: boolean) =>
  formatQuestion(form, { input: INPUT, output: OUTPUT, isStream, pauseMs: 1, breaks: false })
/** 12 of them, as long as those of a real model. */
const embeddings = Array.from({ length: 12 }, (_, index) => ({ index, embedding: Array(3_072).fill(0.012345678) }))
const usage = { prompt_tokens: INPUT, total_tokens: INPUT }
const cached = {
  input_tokens: 100,
  cache_creation_input_tokens: 2_000,
  cache_read_input_tokens: 4_000,
  output_tokens: 1,
}
const total = (totalTokenCount: number) => ({ candidates: [{ content: 'x' }], usageMetadata: { totalTokenCount } })
const graphql = (requestedQueryCost: number) => ({ data: {}, extensions: { cost: { requestedQueryCost } } })
const lines = [
  { message: { content: 'x' }, done: false },
  { done: true, prompt_eval_count: INPUT, eval_count: OUTPUT },
]
const half = (text: string) => Math.ceil(Buffer.byteLength(text) / 4)

const CASES: readonly (readonly [
  api: string,
  method: string,
  path: string,
  body: Body | undefined,
  costs: Readonly<Record<string, number>>,
])[] = [
  ['OpenAI chat', 'POST', ask('openai', false), undefined, { 'openai-minute': 430, 'openai-month': 430 }],
  [
    'a stream of OpenAI with its usage',
    'POST',
    ask('openai', true),
    undefined,
    { 'openai-minute': 430, 'openai-month': 430 },
  ],
  [
    'a stream of OpenAI without, the default',
    'POST',
    '/v1/chat/completions',
    stream({ choices: [] }),
    { 'openai-minute': half(events({ choices: [] })) },
  ],
  [
    'OpenAI Responses',
    'POST',
    '/v1/responses',
    json({ id: 'resp_1', usage: { ...usage, total_tokens: 430 } }),
    { 'openai-minute': 430 },
  ],
  [
    'a stream of OpenAI Responses',
    'POST',
    '/v1/responses',
    stream(
      { type: 'response.created', response: { usage: null } },
      { type: 'response.completed', response: { instructions: 'x'.repeat(150_000), usage: { total_tokens: 430 } } },
    ),
    { 'openai-minute': 430, 'openai-month': 430 },
  ],
  [
    'OpenAI embeddings',
    'POST',
    '/v1/embeddings',
    json({ data: embeddings, usage }),
    { 'openai-minute': INPUT, 'openai-month': INPUT },
  ],
  ['Anthropic', 'POST', ask('anthropic', false), undefined, { 'anthropic-minute': INPUT + 5 * OUTPUT }],
  ['a stream of Anthropic', 'POST', ask('anthropic', true), undefined, { 'anthropic-minute': INPUT + 5 * OUTPUT }],
  ['a compatible stream', 'POST', ask('compatible', true), undefined, { 'anthropic-minute': INPUT + 5 * OUTPUT }],
  [
    'a stream of Anthropic with a cache',
    'POST',
    '/v1/messages',
    stream(
      { type: 'message_start', message: { usage: cached } },
      { type: 'message_delta', usage: { output_tokens: OUTPUT } },
    ),
    { 'anthropic-minute': 100 + 2_500 + 400 + 5 * OUTPUT },
  ],
  ['Gemini', 'POST', '/v1beta/models/m:generateContent', json(total(430)), { gemini: 430 }],
  [
    'a stream of Gemini, an array',
    'POST',
    '/v1beta/models/m:streamGenerateContent',
    json([total(410), total(420), total(430)]),
    { gemini: 430 },
  ],
  [
    'a stream of Gemini, events',
    'POST',
    '/v1beta/models/m:streamGenerateContent?alt=sse',
    stream(total(410), total(430)),
    { gemini: 430 },
  ],
  [
    'Ollama',
    'POST',
    '/api/chat',
    { type: 'application/x-ndjson', bytes: lines.map((line) => `${JSON.stringify(line)}\n`).join('') },
    { ollama: 430 },
  ],
  [
    'Ollama with a cached prompt',
    'POST',
    '/api/generate',
    json({ done: true, eval_count: OUTPUT }),
    { ollama: OUTPUT },
  ],
  ['GraphQL', 'POST', '/graphql', json(graphql(52)), { graphql: 52 }],
  ['a batch of GraphQL', 'POST', '/graphql', json(Array(20).fill(graphql(50))), { graphql: 1_000 }],
  [
    'an answer that is compressed all the same',
    'POST',
    '/graphql',
    { type: 'application/json', bytes: gzipSync(JSON.stringify(graphql(52))), encoding: 'gzip' },
    { graphql: 52 },
  ],
  [
    'a download',
    'GET',
    '/files/a',
    { type: 'application/octet-stream', bytes: Buffer.alloc(70_000) },
    { downloads: 70_000 },
  ],
]

test.each(CASES)('%s is charged what the recipe says', async (api, method, path, given, costs) => {
  body = given
  const key = api.replaceAll(/\W+/g, '-')
  const team = `team-${key}`
  const headers = {
    Authorization: `Bearer ${key}`,
    'X-Api-Key': key,
    'X-Goog-Api-Key': key,
    'X-Team': team,
    'Accept-Encoding': 'gzip',
  }
  const answer = await send(gateway.url, { method, path, headers })
  expect(answer.status).toBe(200)
  const header = { 'x-api-key': key, 'x-goog-api-key': key, 'x-team': team }
  const readUsed = async () => {
    const { body: text } = await operate(gateway.url, '/usage', { body: { caller: { token: key, header } } })
    const { limits } = JSON.parse(`${text}`) as { limits: { policy: string; used: number }[] }
    return Object.fromEntries(limits.flatMap(({ policy, used }) => (policy in costs ? [[policy, used]] : [])))
  }
  await expect.poll(readUsed, { timeout: 3_000 }).toEqual(costs)
})
