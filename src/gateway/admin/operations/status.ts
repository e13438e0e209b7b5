/** The operation that reports the state of this isolate. */
import type * as v from 'valibot'
import * as answers from '../answers.ts'
import { type AdminContext, defineOperation } from '../operation.ts'

async function run({ readHealth, upstream, now }: AdminContext): Promise<v.InferOutput<typeof answers.status>> {
  const { release, status, store } = await readHealth()
  return { nowMs: now(), release, status, store, shedLevel: upstream?.level ?? null }
}

export const status = defineOperation({
  path: '/status',
  summary: 'How the gateway is, as the isolate that answers sees it',
  answer: answers.status,
  run,
})

export const live = defineOperation({
  path: '/live',
  summary: 'The status every two seconds, for five minutes',
  answer: answers.status,
  everyMs: 2_000,
  run,
})
