/** Floods of requests, and what refuses each. */
import type { Environment } from '../../src/http/config/load-config.ts'

export interface FloodCase {
  readonly name: string
  readonly env: Environment
  /** The rules that operators have written about a caller, if there are any. */
  readonly rules?: (digest: string) => object
  /** The fields of the request of this number, apart from its address. */
  readonly listFields: (index: number) => Readonly<Record<string, string>>
  /** What the API answers, if one of them reaches it; 200 if left out. */
  readonly status?: number
}

const nameOne = () => ({ Authorization: 'Bearer one' })
const makeUp = (index: number) => ({ Authorization: `Bearer made-up-${index}` })
const withPolicies = (...tables: readonly object[]): Environment => ({ POLICIES: tables })

/** Windows outlast each flood, so that all of it is refused. */
const PLAIN = { name: 'plain', limits: '20/1h' }
const NEW_TOKENS = { name: 'new-tokens', counts: 'new-identities', by: 'ip', limits: '20/1h' }
const ADDRESSES = { name: 'addresses', by: 'ip', limits: '100/1h' }
const SLOTS = { name: 'slots', algorithm: 'concurrency', limits: '5' }

export const FLOOD_CASES: readonly FloodCase[] = [
  { name: 'plain', env: { RATE_LIMITS: '20/1h' }, listFields: nameOne },
  { name: 'plain, by address, made-up tokens', env: withPolicies(ADDRESSES), listFields: makeUp },
  { name: 'new identities, made-up tokens', env: withPolicies(PLAIN, NEW_TOKENS), listFields: makeUp },
  {
    name: 'new identities, made-up tokens, and a limit by address',
    env: withPolicies(PLAIN, ADDRESSES, NEW_TOKENS),
    listFields: makeUp,
  },
  {
    name: 'new identities with a penalty, made-up tokens',
    env: withPolicies(PLAIN, { ...NEW_TOKENS, penalty: '1h', penalty_after: 5 }),
    listFields: makeUp,
  },
  {
    name: 'new identities and penalties, made-up tokens',
    env: withPolicies({ ...PLAIN, penalty: '1h' }, NEW_TOKENS),
    listFields: makeUp,
  },
  { name: 'slots, all held', env: withPolicies(SLOTS), listFields: nameOne },
  { name: 'slots and a limit', env: withPolicies({ ...PLAIN, limits: '1000/1h' }, SLOTS), listFields: nameOne },
  { name: 'reserve, at its end', env: withPolicies({ ...PLAIN, reserve: { critical: 0.5 } }), listFields: nameOne },
  {
    name: 'costs, varied',
    env: withPolicies({ ...PLAIN, limits: '1000/1h', cost: 'header:x-cost', max_cost: 500 }),
    listFields: (index) => ({ ...nameOne(), 'X-Cost': `${1 + ((index * 373) % 500)}` }),
  },
  {
    name: 'costs, settled',
    env: withPolicies({ ...PLAIN, algorithm: 'quota', actual_cost: 'header:x-actual', untold: 1 }),
    listFields: nameOne,
  },
  { name: 'penalties', env: withPolicies({ ...PLAIN, penalty: '1h', penalty_after: 5 }), listFields: nameOne },
  {
    name: 'failures',
    env: withPolicies({ ...PLAIN, counts: 'failures', failures: '401' }),
    listFields: nameOne,
    status: 401,
  },
  {
    name: 'plans, changed to and fro',
    env: withPolicies({
      ...PLAIN,
      limits: { free: '10/1h', pro: '20/1h' },
      plan: 'header:x-plan',
      default_plan: 'free',
    }),
    listFields: (index) => ({ ...nameOne(), 'X-Plan': index % 2 ? 'pro' : 'free' }),
  },
  {
    name: 'rules: a block',
    env: { ...withPolicies(PLAIN), RULES: 'on' },
    rules: (digest) => ({ blocks: [{ digest }] }),
    listFields: nameOne,
  },
  {
    name: 'rules: other limits',
    env: { ...withPolicies(PLAIN), RULES: 'on' },
    rules: (digest) => ({ overrides: [{ digest, multiplier: 2 }] }),
    listFields: nameOne,
  },
]
