import { StoreError } from '../../../model/store.ts'
import { Deadlines, TOO_LATE } from '../../../runtime/deadlines.ts'
import { callObject, type ObjectNamespace } from '../objects-of.ts'
import type { TableCall } from './messages.ts'

export interface ObjectCallsOptions {
  readonly namespace: ObjectNamespace
  /** Deadline of a call, in milliseconds. */
  readonly timeoutMs: number
}

/** Calls to one object that keeps something other than the state of one key. */
export class ObjectCalls {
  readonly #options: ObjectCallsOptions
  readonly #name: string

  constructor(options: ObjectCallsOptions, name: string) {
    this.#options = options
    this.#name = name
  }

  /** @throws {StoreError} whether it was carried out is then unknown */
  async call<T>(...sent: TableCall): Promise<T> {
    const { namespace, timeoutMs } = this.#options
    const calling = callObject(namespace, this.#name, sent).catch(() => {
      // What an object throws may repeat what it was asked.
      throw new StoreError('a Durable Object could not be reached, or has failed')
    })
    const answer = await Deadlines.ofOne().within(timeoutMs, calling)
    if (answer === TOO_LATE) throw new StoreError('a Durable Object did not answer within the deadline')
    return answer as T
  }
}
