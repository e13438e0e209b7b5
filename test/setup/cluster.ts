import type { TestProject } from 'vitest/node'
import { startRedisCluster } from '../support/redis-cluster.ts'

declare module 'vitest' {
  export interface ProvidedContext {
    /** Of the masters of a Redis Cluster; only for the tests of `test/system/cluster`. */
    clusterPorts?: readonly number[]
  }
}

export default async function cluster({ provide }: TestProject): Promise<() => Promise<void>> {
  const { ports, stop } = await startRedisCluster()
  provide('clusterPorts', ports)
  return stop
}
