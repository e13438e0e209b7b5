/** A master with a replica, which three sentinels watch, on 127.0.0.1. */
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createClient } from '@redis/client'
import { sleep } from '../../src/core/runtime/sleep.ts'
import { findRedisServer } from '../../tools/find-redis-server.ts'
import { findFreePort } from '../../tools/free-port.ts'
import { type RedisServer, startRedisServer } from '../../tools/redis-server.ts'
import { startProgram } from './program.ts'

const HOST = '127.0.0.1'
export const MASTER = 'mymaster'
const QUORUM = 2
/** Silence after which the master is taken for dead. */
const DOWN_AFTER_MS = 1_000
const PATIENCE_MS = 60_000
const POLL_MS = 50

export interface RedisSentinels {
  /** Ports of the sentinels. */
  readonly ports: readonly number[]
  /** The first of them is the master at first. */
  readonly servers: readonly RedisServer[]
  /** Asks the server that the sentinels call the master. */
  askMaster(command: readonly string[]): Promise<unknown>
  /** Resolves to the port of the master, as soon as it is another than before. */
  awaitFailover(): Promise<number>
  stop(): Promise<void>
}

/** @param requirepass password of the servers */
export async function startRedisSentinels({ requirepass = '' } = {}): Promise<RedisSentinels> {
  const secret = requirepass === '' ? [] : ['--requirepass', requirepass, '--masterauth', requirepass]
  const master = await startRedisServer({ args: secret })
  const args = [...secret, '--replicaof', HOST, `${master.port}`]
  const replica = await startRedisServer({ args })
  await until(async () => `${await ask(replica.port, ['INFO', 'replication'], requirepass)}`.includes('link_status:up'))
  const sentinels = await Promise.all(Array.from({ length: 3 }, () => startSentinel(master.port, requirepass)))
  const ports = sentinels.map(({ port }) => port)
  const readMaster = async (port: number) => {
    const state = ((await ask(port, ['SENTINEL', 'MASTER', MASTER])) as string[]).map(String)
    return (name: string) => state[state.indexOf(name) + 1]
  }
  for (const port of ports) {
    await until(async () => {
      const read = await readMaster(port)
      return read('num-slaves') === '1' && read('num-other-sentinels') === '2'
    })
  }
  const findMaster = async () => Number((await readMaster(ports[0] as number))('port'))
  return {
    ports,
    servers: [master, replica],
    askMaster: async (command) => ask(await findMaster(), command, requirepass),
    async awaitFailover() {
      await until(async () => (await findMaster()) !== master.port)
      return findMaster()
    },
    async stop() {
      await Promise.all([...sentinels.map(({ end }) => end()), master.stop(), replica.stop()])
    },
  }
}

async function startSentinel(masterPort: number, requirepass: string) {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-sentinel-'))
  const port = await findFreePort()
  const file = join(folder, 'sentinel.conf')
  const lines = [
    `port ${port}`,
    `bind ${HOST}`,
    `dir ${folder}`,
    `sentinel monitor ${MASTER} ${HOST} ${masterPort} ${QUORUM}`,
    `sentinel down-after-milliseconds ${MASTER} ${DOWN_AFTER_MS}`,
    `sentinel failover-timeout ${MASTER} 5000`,
    ...(requirepass === '' ? [] : [`sentinel auth-pass ${MASTER} ${requirepass}`]),
  ]
  writeFileSync(file, `${lines.join('\n')}\n`)
  const { end } = startProgram(await findRedisServer(), [file, '--sentinel'], {
    ...{ argv0: 'redis-sentinel', stdio: 'ignore', folder },
  })
  await until(async () => (await ask(port, ['PING'])) === 'PONG')
  return { port, end }
}

async function ask(port: number, command: readonly string[], password = ''): Promise<unknown> {
  const client = createClient({ socket: { host: HOST, port, reconnectStrategy: false }, password, RESP: 2 })
  client.on('error', () => {})
  try {
    await client.connect()
    return await client.sendCommand([...command])
  } finally {
    client.destroy()
  }
}

/** Failures count as no. */
async function until(isSo: () => Promise<boolean>): Promise<void> {
  for (let left = PATIENCE_MS; left > 0; left -= POLL_MS) {
    if (await isSo().catch(() => false)) return
    await sleep(POLL_MS)
  }
  throw new Error('the sentinels took too long')
}
