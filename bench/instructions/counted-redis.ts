/** A Redis whose instructions valgrind counts. */
import { mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connectRedis, type RedisClient } from '../../test/support/redis-client.ts'
import { findRedisServer } from '../../tools/find-redis-server.ts'
import { startRedisServer } from '../../tools/redis-server.ts'
import type { UnderCallgrind } from './callgrind.ts'

const PINGS = 200

export interface CountedRedis extends AsyncDisposable {
  readonly port: number
  readonly redis: RedisClient
  /**
   * Instructions of a call. What a PING takes is subtracted for each request to Redis that it makes, so that reading it
   * from the socket and answering is not counted.
   */
  count(calls: number, call: () => Promise<unknown>, requests?: number): Promise<number>
}

export async function startCountedRedis(underCallgrind: UnderCallgrind): Promise<CountedRedis> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-redis-'))
  // Debian's package has the server under a name by which it would check a file.
  const executable = join(folder, 'redis-server')
  await symlink(await findRedisServer(), executable)
  const counted = await underCallgrind(executable)
  const server = await startRedisServer({ binary: counted.file, args: ['--hz', '1'] })
  const redis = await connectRedis(server.port)
  const ping = () => redis.ping()

  async function countAll(calls: number, call: () => Promise<unknown>): Promise<number> {
    const total = await counted.count(server.pid, ping, async () => {
      for (let i = 0; i < calls; i++) await call()
    })
    return total / calls
  }

  const pingInstructions = await countAll(PINGS, ping)
  return {
    port: server.port,
    redis,
    count: async (calls, call, requests = 1) => (await countAll(calls, call)) - requests * pingInstructions,
    async [Symbol.asyncDispose]() {
      await redis.close()
      await server.stop()
      await counted[Symbol.asyncDispose]()
      await rm(folder, { recursive: true })
    },
  }
}
