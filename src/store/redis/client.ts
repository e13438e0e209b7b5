/** What the store needs from a Redis client, whichever it is. A call is sent once: repeated, it would charge twice. */
export interface RedisClient {
  evalsha(sha1: string, keys: string[], args: (string | number)[]): Promise<unknown>
  eval(script: string, keys: string[], args: (string | number)[]): Promise<unknown>
  zrem(key: string, members: readonly string[]): Promise<unknown>
  del(keys: readonly string[]): Promise<unknown>
  ping(): Promise<unknown>
  /** Resolves once its first connection is made, or has failed; undefined if it is not being made. */
  connecting?(): Promise<void> | undefined
  /**
   * The server's own words, without the command, if the thrown value says that the server answered with an error;
   * undefined if there was no readable answer.
   */
  serverWords(error: unknown): string | undefined
}

/** What is used of a client's events. */
export interface ConnectionEvents {
  once?(event: string, listener: () => void): unknown
}

/** What ends the first attempt of a client to connect. */
const ENDS = ['ready', 'close', 'reconnecting', 'end']

/** A client without a queue refuses what is sent while it connects. @param isConnecting whether it connects now */
export function awaitFirstConnection(
  client: ConnectionEvents,
  isConnecting: () => boolean,
): () => Promise<void> | undefined {
  let attempt: Promise<void> | undefined
  let isOver = false
  return () => {
    if (isOver) return undefined
    isOver = client.once === undefined || !isConnecting()
    if (isOver) return undefined
    attempt ??= new Promise((resolve) => {
      const end = () => {
        isOver = true
        resolve()
      }
      for (const event of ENDS) client.once?.(event, end)
    })
    return attempt
  }
}
