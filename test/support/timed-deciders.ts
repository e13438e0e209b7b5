import { inject } from 'vitest'
import type { Decision, DecisionRequest } from '../../src/limit/rule.ts'
import { ObjectScript } from './object-network.ts'
import { connectRedis, ScriptStore } from './script-store.ts'

/** What decides at a time of the test's choosing. */
export interface TimedDecider {
  /** @param nowUs microseconds since the Unix epoch */
  decide(request: DecisionRequest, nowUs: number): Promise<Decision>
  /** What it would decide then. */
  peek(request: DecisionRequest, nowUs: number): Promise<Decision>
}

const redis = await connectRedis(inject('redisPort'))
// It lives as long as the worker, which runs several files.
redis.unref()

/** Each with nothing charged yet. */
export const TIMED_DECIDERS: readonly (readonly [name: string, open: () => TimedDecider])[] = [
  ['script in Redis', () => new ScriptStore(redis)],
  ['Durable Objects', () => new ObjectScript()],
]
