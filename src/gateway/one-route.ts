import type { Result, Router } from 'hono/router'

/** Routes every request to the handler that was added. */
export class OneRoute<T> implements Router<T> {
  readonly name = 'OneRoute'
  #result: Result<T> = [[]]

  add(_method: string, _path: string, handler: T): void {
    this.#result = [[[handler, {}]]]
  }

  match(): Result<T> {
    return this.#result
  }
}
