/** What the store needs from a Redis client, whichever it is. A call is sent once: repeated, it would charge twice. */
export interface RedisClient {
  evalsha(sha1: string, keys: string[], args: (string | number)[]): Promise<unknown>
  eval(script: string, keys: string[], args: (string | number)[]): Promise<unknown>
  zrem(key: string, members: readonly string[]): Promise<unknown>
  del(keys: readonly string[]): Promise<unknown>
  ping(): Promise<unknown>
  /**
   * The server's own words, without the command, if the thrown value says that the server answered with an error;
   * undefined if there was no readable answer.
   */
  serverWords(error: unknown): string | undefined
}
