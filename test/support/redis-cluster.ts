import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { createClient } from '@redis/client'
import { sleep } from '../../src/core/runtime/sleep.ts'
import { findFreePort } from '../../tools/free-port.ts'
import { type RedisServer, startRedisServer } from '../../tools/redis-server.ts'

const HOST = '127.0.0.1'
const SLOTS = 16_384
/** Silence after which a node is taken for dead. */
const NODE_TIMEOUT_MS = 1_000
const START_TIMEOUT_MS = 60_000

export interface ClusterNode {
  readonly server: RedisServer
  readonly send: (command: readonly string[]) => Promise<unknown>
  /** From now on, the node runs what it is sent, and each answer breaks the connection instead of arriving. */
  loseAnswers(isLost: boolean): void
}

export interface RedisCluster {
  readonly masters: readonly ClusterNode[]
  /** Of each master, in order, if there are any. */
  readonly replicas: readonly ClusterNode[]
  /** Where clients connect. */
  readonly ports: readonly number[]
  stop(): Promise<void>
}

interface Started extends ClusterNode {
  readonly id: string
  readonly port: number
  readonly busPort: number
  stop(): Promise<void>
}

/** Starts a Redis Cluster on 127.0.0.1, of Redis 7 or later, and resolves when every node knows it to be complete. */
export async function startRedisCluster({ hasReplicas = false } = {}): Promise<RedisCluster> {
  const count = 3
  const nodes = await Promise.all(Array.from({ length: hasReplicas ? 2 * count : count }, startNode))
  const masters = nodes.slice(0, count)
  const replicas = nodes.slice(count)
  for (const [index, { send }] of masters.entries()) {
    const [from = 0, to = 0] = [index, index + 1].map((n) => Math.floor((n * SLOTS) / count))
    await send(['CLUSTER', 'ADDSLOTSRANGE', `${from}`, `${to - 1}`])
    await send(['CLUSTER', 'SET-CONFIG-EPOCH', `${index + 1}`])
  }
  const [first, ...others] = nodes
  for (const { server, busPort } of others) {
    await first?.send(['CLUSTER', 'MEET', HOST, `${server.port}`, `${busPort}`])
  }
  await untilAll(nodes, ['CLUSTER', 'INFO'], (info) => {
    return info.includes('cluster_state:ok') && info.includes(`cluster_known_nodes:${nodes.length}`)
  })
  for (const [index, { send }] of replicas.entries()) {
    await send(['CLUSTER', 'REPLICATE', masters[index]?.id ?? ''])
  }
  await untilAll(replicas, ['INFO', 'replication'], (info) => info.includes('link_status:up'))
  await untilAll(nodes, ['CLUSTER', 'NODES'], (lines) => (lines.match(/\bslave /g) ?? []).length === replicas.length)
  return {
    masters,
    replicas,
    ports: nodes.map(({ port }) => port),
    async stop() {
      await Promise.all(nodes.map(({ stop }) => stop()))
    },
  }
}

async function startNode(): Promise<Started> {
  const [serverPort, busPort] = [await findFreePort(), await findFreePort()]
  const proxy = await startProxy(serverPort)
  const args = ['--cluster-enabled', 'yes', '--cluster-port', `${busPort}`, '--cluster-announce-port', `${proxy.port}`]
  const server = await startRedisServer({
    port: serverPort,
    args: [...args, '--cluster-node-timeout', `${NODE_TIMEOUT_MS}`],
  })
  const client = createClient({ socket: { host: HOST, port: serverPort }, commandOptions: { timeout: 0 } })
  // Of one that a test has stopped.
  client.on('error', () => {})
  await client.connect()
  const send = (command: readonly string[]) => client.sendCommand([...command])
  return {
    server,
    send,
    loseAnswers: proxy.loseAnswers,
    id: String(await send(['CLUSTER', 'MYID'])),
    port: proxy.port,
    busPort,
    async stop() {
      client.destroy()
      proxy.stop()
      await server.stop()
    },
  }
}

/** Hands everything on between clients and a server, until it loses the answers. */
async function startProxy(serverPort: number) {
  let isLost = false
  const proxy = createServer((client) => {
    const server = connect(serverPort, HOST)
    client.on('data', (chunk) => server.write(chunk))
    server.on('data', (chunk) => (isLost ? client.destroy() : client.write(chunk)))
    for (const [one, other] of [
      [client, server],
      [server, client],
    ] as const) {
      one.on('error', () => {})
      one.on('close', () => other.destroy())
    }
  })
  proxy.listen(0, HOST).unref()
  await once(proxy, 'listening')
  return {
    port: (proxy.address() as AddressInfo).port,
    loseAnswers(lost: boolean) {
      isLost = lost
    },
    stop: () => proxy.close(),
  }
}

async function untilAll(
  nodes: readonly ClusterNode[],
  command: readonly string[],
  isReady: (answer: string) => boolean,
): Promise<void> {
  const endMs = performance.now() + START_TIMEOUT_MS
  for (;;) {
    const answers = await Promise.all(nodes.map(({ send }) => send(command)))
    if (answers.every((answer) => isReady(String(answer)))) return
    if (performance.now() > endMs) throw new Error(`the cluster is not complete: ${command.join(' ')}: ${answers}`)
    await sleep(50)
  }
}
