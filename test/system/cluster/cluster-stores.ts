import { inject } from 'vitest'
import { type AnyRedis, redisStore } from '../../../src/library/stores.ts'
import { EVERY_ALGORITHM } from '../../support/charges.ts'
import { realTimeSubject, type Subject } from '../../support/subject.ts'
import { connectIoCluster, connectNodeCluster } from './clients.ts'

const ports = inject('clusterPorts') ?? []

export const STORES: Record<string, () => Subject> = {
  'a cluster of @redis/client': createSubject(await connectNodeCluster(ports)),
  'a Cluster of ioredis': createSubject(connectIoCluster(ports)),
}

function createSubject(client: AnyRedis): () => Subject {
  const store = redisStore(client, { timeoutMs: 60_000 })
  return () => realTimeSubject(store.open(EVERY_ALGORITHM))
}
