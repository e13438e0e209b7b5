import { setTimeout as wait } from 'node:timers/promises'
import { findRedisServer } from '../../../tools/find-redis-server.ts'
import { type RedisServer, type RedisServerOptions, startRedisServer } from '../../../tools/redis-server.ts'
import { connectRedis, type RedisClient } from '../../support/redis-client.ts'

/** A Redis that is killed, stopped and replaced: anew at the same port, or by a replica at another. */
export class FaultyRedis {
  readonly port: number
  readonly #binary: string
  #server: RedisServer
  #client: RedisClient
  #replica: FaultyRedis | undefined

  private constructor(binary: string, server: RedisServer, client: RedisClient) {
    this.#binary = binary
    this.port = server.port
    this.#server = server
    this.#client = client
  }

  static async start(options: RedisServerOptions = {}): Promise<FaultyRedis> {
    const binary = options.binary ?? (await findRedisServer())
    const server = await startRedisServer({ ...options, binary })
    return new FaultyRedis(binary, server, await connect(server.port))
  }

  /** A connection of the test's own, past all fronts. */
  get client(): RedisClient {
    return this.#client
  }

  /** SIGKILL: what it held is lost. */
  async kill(): Promise<void> {
    if (this.#client.isOpen) this.#client.destroy()
    await this.#server.stop()
  }

  /** Starts it anew, empty, at its first port. */
  async restart(): Promise<void> {
    await this.kill()
    this.#server = await startRedisServer({ port: this.port, binary: this.#binary })
    this.#client = await connect(this.port)
  }

  /** Stops the process, which keeps its connections open and answers nothing. */
  freeze(): void {
    process.kill(this.#server.pid, 'SIGSTOP')
  }

  thaw(): void {
    process.kill(this.#server.pid, 'SIGCONT')
  }

  /**
   * Starts a replica and resolves when it has all that there is.
   * @param env variables of its environment
   */
  async replicate(env: Readonly<Record<string, string>>): Promise<void> {
    // It would wait for more replicas.
    await this.#client.configSet('repl-diskless-sync-delay', '0')
    const args = ['--replicaof', '127.0.0.1', `${this.port}`]
    this.#replica = await FaultyRedis.start({ binary: this.#binary, env, args })
    while (!(await this.#replica.client.info('replication')).includes('master_link_status:up')) await wait(10)
  }

  /** How far the replica's clock is ahead of this machine's, seconds: no less than the first, and no more than the second. */
  async replicaOffsetS(): Promise<readonly [min: number, max: number]> {
    if (!this.#replica) throw new Error('there is no replica')
    const beforeMs = Date.now()
    const time = (await this.#replica.client.sendCommand(['TIME'])) as unknown as [string, string]
    const [seconds, us] = time.map(Number) as [number, number]
    const atS = seconds + us / 1e6
    // This clock tells whole milliseconds.
    return [atS - (Date.now() + 1) / 1_000, atS - beforeMs / 1_000]
  }

  /** Resolves when the replica has all that was written. */
  async waitForReplica(): Promise<void> {
    // A write of this connection's own, as WAIT waits for no others.
    await this.#client.set('failover', '1')
    if ((await this.#client.wait(1, 5_000)) !== 1) throw new Error('the replica did not catch up')
  }

  /** From now on the replica gets nothing more. */
  async cutOffReplica(): Promise<void> {
    const unavailable = '1'
    await this.#replica?.client.sendCommand(['REPLICAOF', '127.0.0.1', unavailable])
  }

  /**
   * Kills it once its replica has all that was written, and lets the replica take its place.
   * @param isLagging true: it lacks what was written since it was cut off
   * @returns the replica's port
   */
  async failOver({ isLagging = false } = {}): Promise<number> {
    const replica = this.#replica
    if (!replica) throw new Error('there is no replica')
    if (!isLagging) await this.waitForReplica()
    await this.kill()
    await replica.#client.sendCommand(['REPLICAOF', 'NO', 'ONE'])
    this.#server = replica.#server
    this.#client = replica.#client
    this.#replica = undefined
    return replica.port
  }

  async stop(): Promise<void> {
    await this.#replica?.stop()
    await this.kill()
  }
}

async function connect(port: number): Promise<RedisClient> {
  const client = await connectRedis(port)
  // A connection breaks when its Redis is killed.
  client.on('error', () => {})
  return client
}
