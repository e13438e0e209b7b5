import * as v from 'valibot'
import { defineOperation, type Operated } from '../operation.ts'

const answer = v.strictObject({
  nowMs: v.pipe(v.number(), v.description('Milliseconds since the Unix epoch.')),
  version: v.string(),
  status: v.picklist(['ok', 'degraded']),
  store: v.strictObject({
    kind: v.pipe(v.string(), v.description('`redis`, `durable-object` or `memory`.')),
    reachable: v.nullable(v.boolean()),
    rttMs: v.pipe(v.nullable(v.number()), v.description('How long it took to answer; null if it did not.')),
    circuit: v.pipe(
      v.picklist(['closed', 'open', 'half-open']),
      v.description('Open: it keeps failing, and is left alone for a moment.'),
    ),
  }),
  shedLevel: v.pipe(
    v.nullable(v.number()),
    v.description('0 (nothing is shed) to 2 (all but what is critical); null without SHEDDING.'),
  ),
})

async function read({ readHealth, upstream, now }: Operated): Promise<v.InferOutput<typeof answer>> {
  const { version, status, store } = await readHealth()
  return { nowMs: now(), version, status, store: { ...store }, shedLevel: upstream?.level ?? null }
}

export const status = defineOperation({
  method: 'GET',
  path: '/status',
  summary: 'How the gateway is, as the isolate that answers sees it',
  answer,
  run: read,
})

export const live = defineOperation({
  method: 'GET',
  path: '/live',
  summary: 'The same, every two seconds, for five minutes',
  answer,
  everyMs: 2_000,
  run: read,
})
