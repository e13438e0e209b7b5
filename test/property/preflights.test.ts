/** What names a caller, a plan or a cost is no preflight, of whatever kind it is: it reaches the API as often as it may. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { CallerKind } from '../../src/core/model/identity-source.ts'
import { openMemoryBackend } from '../../src/core/store/memory/memory-store.ts'
import { openDecisions } from '../support/decisions.ts'
import { expectProperty } from '../support/property.ts'

const PAGE = 'https://app.example.com'
const PREFLIGHT = { Origin: PAGE, 'Access-Control-Request-Method': 'PUT', 'CF-Connecting-IP': '203.0.113.9' }
const LIMIT = 3
const TIMES = 12
const JWT_SECRET = 'planted-secret-of-a-token-0123456789abcdef'

/** The part of a request that carries a source of each kind; undefined if every request has it, or only one with a body. */
const CARRIERS = {
  token: (_, value) => ({ by: 'token', headers: { Authorization: `Bearer ${value}` } }),
  claim: (name, value) => ({ by: `claim:${name}`, headers: { Authorization: `Bearer ${value}` } }),
  header: (name, value) => ({ by: `header:${name}`, headers: { [name]: value } }),
  query: (name, value) => ({ by: `query:${name}`, query: `?${name}=${value}` }),
  cookie: (name, value) => ({ by: `cookie:${name}`, headers: { Cookie: `${name}=${value}` } }),
  ip: undefined,
  form: undefined,
  json: undefined,
} as const satisfies Readonly<Record<CallerKind, ((name: string, value: string) => Carrier) | undefined>>

interface Carrier {
  readonly by: string
  readonly headers?: Readonly<Record<string, string>>
  readonly query?: string
}

const name = fc.stringMatching(/^[a-z]{4,8}$/).map((text) => `x-${text}`)
const value = fc.stringMatching(/^[a-z0-9]{1,20}$/)

/** @returns how many of a number of equal requests reach the API */
async function countPassed(policy: object, { headers, query = '' }: Omit<Carrier, 'by'>, times = TIMES) {
  const limits = `${LIMIT}/1h`
  const env = { UPSTREAM_URL: 'https://api.example.com', CORS_ORIGINS: PAGE, RATE_LIMITS: limits }
  const usesClaims = JSON.stringify(policy).includes('claim:')
  const policies = [{ name: 'own', limits, anonymous: 'ip', ...policy }]
  const gateway = await openDecisions(
    { ...env, ...(usesClaims && { JWT_SECRET }), STORE: 'memory', POLICIES: policies },
    (_, now) => openMemoryBackend(now),
  )
  let passed = 0
  for (let i = 0; i < times; i++) {
    const response = await gateway.fetch(`/orders${query}`, {
      method: 'OPTIONS',
      headers: { ...PREFLIGHT, ...headers },
    })
    if (response.status === 200) passed++
  }
  return passed
}

const carriers = Object.values(CARRIERS).filter((carry) => carry !== undefined)

test('withCors() counts an OPTIONS that carries what a policy counts by, takes a plan from or reads a cost from', () => {
  const policies = fc.oneof(
    fc.tuple(fc.constantFrom(...carriers), name, value).map(([carry, name, value]) => {
      const { by, ...carrier } = carry(name, value)
      return { policy: { by }, carrier }
    }),
    fc.tuple(fc.constantFrom('header' as const, 'claim' as const), name, value).map(([kind, name, value]) => {
      const { by, ...carrier } = CARRIERS[kind](name, value)
      return {
        policy: { by: 'ip', limits: { free: `${LIMIT}/1h` }, plan: by, default_plan: 'free', anonymous: undefined },
        carrier,
      }
    }),
    name.map((name) => ({
      policy: { by: 'ip', cost: `header:${name}`, max_cost: 2, anonymous: undefined },
      carrier: { headers: { [name]: '1' } },
    })),
  )
  return expectProperty(
    fc.asyncProperty(policies, async ({ policy, carrier }) => {
      expect(await countPassed(policy, carrier)).toBe(LIMIT)
      // Without it, the same is a preflight.
      expect(await countPassed(policy, {})).toBe(TIMES)
    }),
    400,
  )
})
