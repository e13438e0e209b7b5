/** What the store asks of a client of Redis, whichever it is. A call is sent once: repeated, it would charge twice. */
export interface RedisClient {
  evalsha(sha1: string, keys: string[], args: (string | number)[]): Promise<unknown>
  eval(script: string, keys: string[], args: (string | number)[]): Promise<unknown>
  zrem(key: string, members: readonly string[]): Promise<unknown>
  del(keys: readonly string[]): Promise<unknown>
  ping(): Promise<unknown>
  /**
   * The server's own words, without the command, if what was thrown says that it answered an error; undefined if it gave
   * no answer that could be read.
   */
  serverWords(error: unknown): string | undefined
}
