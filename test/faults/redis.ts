import { type RedisServer, startRedisServer } from '../../tools/redis-server.ts'
import { connectRedis, type RedisClient } from '../support/script-store.ts'

/** A Redis that is killed, stopped and replaced, always at the same port. */
export class FaultyRedis {
  readonly port: number
  #server: RedisServer
  #client: RedisClient

  private constructor(server: RedisServer, client: RedisClient) {
    this.port = server.port
    this.#server = server
    this.#client = client
  }

  static async start(): Promise<FaultyRedis> {
    const server = await startRedisServer()
    return new FaultyRedis(server, await connect(server.port))
  }

  /** A connection of the test's own, past all fronts. */
  get client(): RedisClient {
    return this.#client
  }

  /** SIGKILL: what it held is lost. */
  async kill(): Promise<void> {
    this.#client.destroy()
    await this.#server.stop()
  }

  /** Starts it anew, empty. */
  async restart(): Promise<void> {
    this.#server = await startRedisServer({ port: this.port })
    this.#client = await connect(this.port)
  }

  /** Stops the process, which keeps its connections open and answers nothing. */
  freeze(): void {
    process.kill(this.#server.pid, 'SIGSTOP')
  }

  thaw(): void {
    process.kill(this.#server.pid, 'SIGCONT')
  }

  async stop(): Promise<void> {
    if (this.#client.isOpen) this.#client.destroy()
    await this.#server.stop()
  }
}

async function connect(port: number): Promise<RedisClient> {
  const client = await connectRedis(port)
  // A connection breaks when its Redis is killed.
  client.on('error', () => {})
  return client
}
