/** Limiters whose decision is by several policies, each by an identity of its own. */
import { formatKey, type StoreCharge } from '../../src/core/model/charge.ts'
import type { Store } from '../../src/core/model/store.ts'
import { openUpstashBackend } from '../../src/core/store/redis/upstash-backend.ts'
import type { RedisClient } from '../../test/support/redis-client.ts'
import { type Contender, UPSTASH } from '../peers.ts'
import { createLimits } from '../redis/measure.ts'
import { createPeer, fillStream, type Subject } from '../redis/subjects.ts'

/** What policies count by, one each: as many as a decision has. */
const IDENTITIES = ['address', 'token', 'tenant', 'user', 'device', 'route'] as const
export const IDENTITY_COUNTS = [1, 3, 6] as const
const [LIMIT] = createLimits(1) as [StoreCharge['limits'][number]]

/** A limiter whose decision is by several policies, each of one limit and by an identity of its own. */
export interface IdentitySubject extends Subject {
  readonly identities: number
  /** Calls to Redis for one decision. */
  readonly calls: number
}

/** What a decision of so many policies charges. */
export function createCharges(caller: string, identities: number): StoreCharge[] {
  return createIdentities(caller, identities).map((identity, index) => ({
    key: formatKey('sluice', IDENTITIES[index] as string, 's', identity),
    algorithm: 'sliding-window',
    limits: [LIMIT],
    cost: 1,
    mode: 'enforce',
    reserved: 0,
  }))
}

/** @throws Error if it refuses, which no limit here is low enough for */
export async function decide(store: Store, caller: string, identities: number): Promise<void> {
  const { granted } = await store.decide({ action: 'take', permits: 1, charges: createCharges(caller, identities) })
  if (granted !== 1) throw new Error('Sluice refused what it should admit')
}

/** Sluice with one call, and a peer with a call for each identity, one after the other, as its documentation has it. */
export function createIdentitySubjects(
  redis: RedisClient,
  contenders: readonly Contender[],
  rest: { readonly url: string; readonly token: string },
): IdentitySubject[] {
  const { limits: store } = openUpstashBackend({ ...rest, algorithms: ['sliding-window'], timeoutMs: 5_000 })
  const peers = contenders.filter(({ name }) => name === UPSTASH).map((peer) => createPeer(redis, [LIMIT], peer))
  return IDENTITY_COUNTS.flatMap((identities): IdentitySubject[] => [
    {
      name: 'Sluice',
      identities,
      calls: 1,
      async fill(caller, entries) {
        for (const { key } of createCharges(caller, identities)) await fillStream(redis, key, entries, LIMIT.windowMs)
      },
      decide: (caller) => decide(store, caller, identities),
    },
    ...peers.map((peer) => ({
      name: peer.name,
      identities,
      calls: identities,
      async fill(caller: string, entries: number) {
        for (const identity of createIdentities(caller, identities)) await peer.fill(identity, entries)
      },
      async decide(caller: string) {
        for (const identity of createIdentities(caller, identities)) await peer.decide(identity)
      },
    })),
  ])
}

/** Identities are as long as the digests of a gateway. */
function createIdentities(caller: string, identities: number): string[] {
  return Array.from({ length: identities }, (_, index) => `${caller}-${index}`.padStart(22, '0'))
}
