import { Redis } from '@upstash/redis'
import { UPSTASH_OPTIONS, upstashWords } from '../../store/redis/clients/upstash.ts'
import { SHEBANG_UNKNOWN } from '../../store/redis/script.ts'
import {
  type Database,
  DatabaseError,
  isUnavailable,
  type KeyName,
  type Page,
  parseInfo,
  serverError,
} from './database.ts'
import type { Script } from './scripts.ts'

/** A call that takes longer is repeated. */
const SILENCE_MS = 30_000
/** What bytes that are no UTF-8 become in JSON. */
const REPLACED = '\ufffd'

type Argument = string | number

/** A database over Upstash's REST protocol, https://upstash.com/docs/redis/features/restapi */
export class UpstashDatabase implements Database {
  readonly inFlight = 8
  readonly #redis: Redis
  readonly #token: string
  /** Which text of scripts to send: until a server says that it does not know the line. */
  #variant: 'locking' | 'plain' = 'locking'
  #hasReadOnlyScripts = true

  constructor({ url, token }: { readonly url: string; readonly token: string }) {
    this.#token = token
    this.#redis = new Redis({
      url,
      token,
      ...UPSTASH_OPTIONS,
      signal: () => AbortSignal.timeout(SILENCE_MS),
    })
  }

  async scan(cursor: string, match: string, count: number): Promise<Page> {
    const [next, names] = (await this.#call(['SCAN', cursor, 'MATCH', match, 'COUNT', count])) as [string, string[]]
    // Sent back, such a name would be another key's.
    const keys = names.filter((name) => !name.includes(REPLACED))
    return { cursor: String(next), keys, unnameable: names.length - keys.length }
  }

  async run(script: Script, keys: readonly KeyName[], args: readonly number[]): Promise<readonly number[]> {
    const variant = this.#variant
    const { text, sha1 } = script[variant]
    const rest = [keys.length, ...keys.map(String), ...args]
    const suffix = script.isReadOnly && this.#hasReadOnlyScripts ? '_RO' : ''
    let words: string
    try {
      return (await this.#send([`EVALSHA${suffix}`, sha1, ...rest])) as number[]
    } catch (error) {
      words = wordsOf(error)
      if (!words.startsWith('NOSCRIPT') && !(suffix !== '' && isUnavailable(words))) throw this.#toError(error)
    }
    if (words.startsWith('NOSCRIPT')) {
      try {
        return (await this.#send([`EVAL${suffix}`, text, ...rest])) as number[]
      } catch (error) {
        words = wordsOf(error)
        if (variant === 'plain' || !SHEBANG_UNKNOWN.test(words)) throw this.#toError(error)
      }
      this.#variant = 'plain'
    } else {
      this.#hasReadOnlyScripts = false
    }
    return this.run(script, keys, args)
  }

  async unlink(keys: readonly KeyName[]): Promise<number> {
    return (await this.#call(['UNLINK', ...keys.map(String)])) as number
  }

  async ping(): Promise<void> {
    await this.#call(['PING'])
  }

  async size(): Promise<number> {
    return (await this.#call(['DBSIZE'])) as number
  }

  async info(section: string): Promise<ReadonlyMap<string, string> | undefined> {
    try {
      return parseInfo(String(await this.#send(['INFO', section])))
    } catch (error) {
      if (isUnavailable(wordsOf(error))) return undefined
      throw this.#toError(error)
    }
  }

  async slowCommands(): Promise<undefined> {
    // Upstash has no SLOWLOG, and would charge for each question.
    return undefined
  }

  async close(): Promise<void> {}

  #send([name = '', ...args]: readonly Argument[]): Promise<unknown> {
    return this.#redis.exec([String(name), ...args])
  }

  async #call(args: readonly Argument[]): Promise<unknown> {
    try {
      return await this.#send(args)
    } catch (error) {
      throw this.#toError(error)
    }
  }

  #toError(error: unknown): DatabaseError {
    const words = wordsOf(error).replaceAll(this.#token, '…')
    if (words !== '') return serverError(words)
    return new DatabaseError('Upstash could not be reached, or its answer could not be read', true)
  }
}

/** What the server said; nothing if it gave no answer that could be read. */
function wordsOf(error: unknown): string {
  return upstashWords(error) ?? ''
}
