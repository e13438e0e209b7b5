/** A gateway before a language model's API, over Redis or over Durable Objects, and clients that ask it. */
import type { IncomingMessage } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { type RedisServer, startRedisServer } from '../../../tools/redis-server.ts'
import { startRestFront } from '../../../tools/rest-front.ts'
import type { Bundle } from '../../support/build-bundle.ts'
import { type DirectGateway, startDirectGateway } from '../../support/direct-gateway.ts'
import { openRequest } from '../../support/http-client.ts'
import { type Answered, createLanguageModel } from '../../support/language-model.ts'
import { type Part, startParts } from '../../support/parts.ts'
import { PATIENT } from '../../support/site.ts'
import { startUpstream } from '../../support/upstream.ts'

/** What is used by either API, streamed or not. */
export const TOKENS = {
  'json:/usage/prompt_tokens|/usage/input_tokens|/message/usage/input_tokens': 1,
  'json:/usage/completion_tokens|/usage/output_tokens': 1,
}

export interface SiteOptions {
  readonly bundle: Bundle
  readonly store: 'redis' | 'durable-object'
  readonly gateways: number
  readonly policies: readonly object[]
}

export interface CostSite extends Part {
  readonly gateways: readonly DirectGateway[]
  readonly redis: RedisServer
  /** What the model has used so far, by its own record. */
  readonly used: readonly Answered[]
}

export function startSite({ bundle, store, gateways: count, policies }: SiteOptions): Promise<CostSite> {
  return startParts(async (add) => {
    const used: Answered[] = []
    const upstream = await add(startUpstream(createLanguageModel((answered) => used.push(answered))))
    const redis = await add(startRedisServer())
    const front = await add(startRestFront({ redisPort: redis.port, token: 'rest-token' }))
    const bindings = {
      ...{ UPSTREAM_URL: upstream.url, ...PATIENT, POLICIES: policies, RATE_LIMITS: 'off', STORE: store },
      ...(store === 'redis' && { UPSTASH_REDIS_REST_URL: front.url, UPSTASH_REDIS_REST_TOKEN: front.token }),
    }
    const options = { bundle, bindings, v8Flags: ['--max-heap-size=64'] }
    const objects = store === 'redis' ? {} : ({ objects: 'disk' } as const)
    const starting = Array.from({ length: count }, () => add(startDirectGateway({ ...options, ...objects })))
    return { gateways: await Promise.all(starting), redis, used }
  })
}

export interface Question {
  readonly path: string
  readonly caller: string
  readonly fields?: Readonly<Record<string, string>>
  /** The client goes when it has seen the beginning of the answer. */
  readonly leaves?: boolean
}

/** @returns the status, or `broken` if there is none, or the answer breaks off */
export async function ask(gateway: URL, { path, caller, fields = {}, leaves = false }: Question) {
  const headers = { Authorization: `Bearer ${caller}`, ...fields }
  const client = openRequest(gateway, { method: 'POST', path, headers })
  const answering = new Promise<IncomingMessage>((resolve, reject) =>
    client.on('response', resolve).on('error', reject),
  )
  client.end()
  try {
    const answer = await answering
    for await (const _ of answer) if (leaves) break
    return answer.statusCode ?? 0
  } catch {
    return 'broken'
  }
}

/** Does work in lanes until a moment. */
export async function driveUntil(untilMs: number, lanes: number, work: () => Promise<unknown>): Promise<void> {
  const drive = async () => {
    while (Date.now() < untilMs) if ((await work()) === 429) await sleep(10)
  }
  await Promise.all(Array.from({ length: lanes }, drive))
}
