/** Limits by plan, from the request to the decision. */
import { expect, test } from 'vitest'
import { withLeases } from '../../src/core/engine/stages/leases.ts'
import type { DecisionRequest } from '../../src/core/model/charge.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import { type Environment, loadConfig } from '../../src/http/config/load-config.ts'
import { composeLimiter } from '../../src/http/request/request-limiter.ts'
import { createPathReader } from '../../src/http/request/target.ts'
import { callContext } from '../support/call-context.ts'

const API = {
  name: 'api',
  limits: { free: '3/1m', pro: '6/1m' },
  plan: 'header:x-plan',
  default_plan: 'free',
}
const readPath = createPathReader()

function subject(policy: object = API, env: Environment = {}) {
  const config = loadConfig({ UPSTREAM_URL: 'https://api.example.com', POLICIES: [policy], ...env })
  const clock = { now: 1_700_000_000_000 }
  const now = () => clock.now
  const asked: DecisionRequest[] = []
  const memory = new MemoryStore(now)
  const store = Object.assign(Object.create(memory) as MemoryStore, {
    kind: 'memory',
    decide: async (request: DecisionRequest) => {
      asked.push(request)
      return memory.decideNow(request)
    },
  })
  const leases = config.leases === undefined ? undefined : withLeases(config.leases)
  const { limiter } = composeLimiter({ ...config, store, now, log: () => {}, leases, health: undefined })
  /** What is left, below 0 of what was refused. */
  const call = async (plan?: string, token = 'a') => {
    const headers = { Authorization: `Bearer ${token}`, ...(plan !== undefined && { 'X-Plan': plan }) }
    const request = new Request('https://gateway.example/', { headers })
    const verdict = await limiter.decide({ request, path: readPath('/'), context: callContext() })
    const [limit] = 'limits' in verdict ? verdict.limits : []
    return [verdict.outcome, limit?.limit, limit?.remaining]
  }
  return { clock, asked, call }
}

test('each caller has the limits of its plan, and of the default plan without one', async () => {
  const { call } = subject()
  expect(await call('free', 'f')).toEqual(['admitted', 3, 2])
  expect(await call('pro', 'p')).toEqual(['admitted', 6, 5])
  expect(await call(undefined, 'n')).toEqual(['admitted', 3, 2])
})

test.each(['', 'PRO', 'trial', 'pro, pro', 'pro,free', 'toString', '__proto__'])(
  'a caller on plan %j, which is none, has the default plan',
  async (plan) => {
    const { call } = subject()
    expect(await call(plan)).toEqual(['admitted', 3, 2])
  },
)

test('what a caller has used stays when it changes its plan', async () => {
  const { call } = subject()
  for (let i = 0; i < 3; i++) await call('free')
  expect(await call('free')).toEqual(['limited', 3, 0])
  // What is remembered of one plan says nothing of another.
  expect(await call('pro')).toEqual(['admitted', 6, 2])
  expect(await call('pro')).toEqual(['admitted', 6, 1])
  expect(await call('free')).toEqual(['limited', 3, 0])
  expect(await call('pro')).toEqual(['admitted', 6, 0])
  expect(await call('pro')).toEqual(['limited', 6, 0])
  expect(await call('free')).toEqual(['limited', 3, 0])
})

test('refusals of each plan are remembered by themselves', async () => {
  const { asked, call } = subject()
  for (let i = 0; i < 6; i++) await call('pro')
  const before = asked.length
  for (let i = 0; i < 10; i++) {
    expect((await call('pro'))[0]).toBe('limited')
    expect((await call('free'))[0]).toBe('limited')
  }
  expect(asked.length - before).toBe(2)
})

test('permits that were leased for one plan are not spent by another', async () => {
  const limits = { free: '20/1m', pro: '10000/1m' }
  const { clock, asked, call } = subject({ ...API, limits }, { LEASES: 'auto' })
  for (let i = 0; i < 60; i++) {
    clock.now += 5
    await call('pro')
  }
  expect(asked.some(({ permits }) => permits > 1)).toBe(true)
  expect(await call('free')).toEqual(['limited', 20, 0])
})

test('a caller on a plan that counts failures fails as often as that allows', async () => {
  const { call } = subject({ ...API, counts: 'failures' })
  expect(await call('pro')).toEqual(['admitted', 6, 6])
})
