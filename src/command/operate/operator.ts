import type { Operation } from '../../admin/operation.ts'

/** Does what operators ask for: the operations of the admin API, whose answers are the same wherever they are done. */
export interface Operator {
  /** Where it is done: host and port, to be shown. */
  readonly name: string
  /** The same, as `--json` has it. */
  readonly shown: { readonly redis: string } | { readonly gateway: string }
  /** @throws {CommandError} that says in one line what is wrong @throws {StoreError} */
  ask<Answer>(operation: Operation<unknown, Answer, unknown>, sent?: Sent): Promise<Answer>
  close(): Promise<void>
}

/** What an operation is told, before it is checked. */
export interface Sent {
  readonly body?: object
  /** Of the URL, which names no caller. */
  readonly query?: Readonly<Record<string, string>>
}
