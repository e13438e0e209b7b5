import { createCluster } from '@redis/client'
import { Cluster } from 'ioredis'

/** Connects a client of `@redis/client` to a cluster on 127.0.0.1. */
export function connectNodeCluster(ports: readonly number[]) {
  const rootNodes = ports.map((port) => ({ socket: { host: '127.0.0.1', port } }))
  const cluster = createCluster({ rootNodes, commandOptions: { timeout: 0 } })
  cluster.on('error', () => {})
  cluster.on('node-error', () => {})
  return cluster.connect()
}

/** Connects a client of `ioredis` to a cluster on 127.0.0.1. */
export function connectIoCluster(
  ports: readonly number[],
  options: NonNullable<ConstructorParameters<typeof Cluster>[1]> = { retryDelayOnFailover: 0 },
) {
  const nodes = ports.map((port) => ({ host: '127.0.0.1', port }))
  const cluster = new Cluster(nodes, options)
  cluster.on('error', () => {})
  return cluster
}
