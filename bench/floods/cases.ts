import type { Environment } from '../../src/http/config/load-config.ts'

/** A flood of requests, and what refuses it. */
export interface FloodCase {
  readonly name: string
  readonly env: Environment
  /** The rules that operators have written about a caller, if there are any. */
  readonly rules?: (digest: string) => object
  /** Number of this request of the flood → its fields, beside its address. */
  readonly fields: (index: number) => Readonly<Record<string, string>>
  /** What the API answers, if one of them reaches it; 200 if left out. */
  readonly status?: number
}

const one = () => ({ Authorization: 'Bearer one' })
const madeUp = (index: number) => ({ Authorization: `Bearer made-up-${index}` })
const policies = (...tables: readonly object[]): Environment => ({ POLICIES: tables })

/** Windows outlast each flood, so that all of it is refused. */
const PLAIN = { name: 'plain', limits: '20/1h' }
const NEWCOMERS = { name: 'newcomers', counts: 'new-identities', by: 'ip', limits: '20/1h' }
const ADDRESSES = { name: 'addresses', by: 'ip', limits: '100/1h' }
const SLOTS = { name: 'slots', algorithm: 'concurrency', limits: '5' }

export const FLOOD_CASES: readonly FloodCase[] = [
  { name: 'plain', env: { RATE_LIMITS: '20/1h' }, fields: one },
  { name: 'plain, by address, made-up tokens', env: policies(ADDRESSES), fields: madeUp },
  { name: 'newcomers, made-up tokens', env: policies(PLAIN, NEWCOMERS), fields: madeUp },
  {
    name: 'newcomers, made-up tokens, beside a limit by address',
    env: policies(PLAIN, ADDRESSES, NEWCOMERS),
    fields: madeUp,
  },
  {
    name: 'newcomers that block, made-up tokens',
    env: policies(PLAIN, { ...NEWCOMERS, penalty: '1h', penalty_after: 5 }),
    fields: madeUp,
  },
  {
    name: 'newcomers beside penalties, made-up tokens',
    env: policies({ ...PLAIN, penalty: '1h' }, NEWCOMERS),
    fields: madeUp,
  },
  { name: 'slots, all held', env: policies(SLOTS), fields: one },
  { name: 'slots beside a limit', env: policies({ ...PLAIN, limits: '1000/1h' }, SLOTS), fields: one },
  { name: 'reserve, at its end', env: policies({ ...PLAIN, reserve: { critical: 0.5 } }), fields: one },
  {
    name: 'costs, varied',
    env: policies({ ...PLAIN, limits: '1000/1h', cost: 'header:x-cost', max_cost: 500 }),
    fields: (index) => ({ ...one(), 'X-Cost': `${1 + ((index * 373) % 500)}` }),
  },
  {
    name: 'costs, settled',
    env: policies({ ...PLAIN, algorithm: 'quota', actual_cost: 'header:x-actual' }),
    fields: one,
  },
  { name: 'penalties', env: policies({ ...PLAIN, penalty: '1h', penalty_after: 5 }), fields: one },
  { name: 'failures', env: policies({ ...PLAIN, counts: 'failures', failures: '401' }), fields: one, status: 401 },
  {
    name: 'plans, changed to and fro',
    env: policies({ ...PLAIN, limits: { free: '10/1h', pro: '20/1h' }, plan: 'header:x-plan', default_plan: 'free' }),
    fields: (index) => ({ ...one(), 'X-Plan': index % 2 ? 'pro' : 'free' }),
  },
  {
    name: 'rules: a block',
    env: { ...policies(PLAIN), RULES: 'on' },
    rules: (digest) => ({ blocks: [{ digest }] }),
    fields: one,
  },
  {
    name: 'rules: other limits',
    env: { ...policies(PLAIN), RULES: 'on' },
    rules: (digest) => ({ overrides: [{ digest, multiplier: 2 }] }),
    fields: one,
  },
]
