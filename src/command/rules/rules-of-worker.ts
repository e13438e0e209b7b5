import { ConfigError } from '../../config/config-error.ts'
import { RULES, type Rules } from '../../rules/document.ts'
import { type Edited, editRules, type Note, rollBackRules } from '../../rules/editor.ts'
import { rulesKey } from '../../rules/gateway-rules.ts'
import { checkRules } from '../../rules/policies.ts'
import type { Documents } from '../../store/documents.ts'
import { RedisDocuments } from '../../store/redis/documents/redis-documents.ts'
import { configOf, environmentOf } from '../caller/ask.ts'
import { CommandError } from '../command-error.ts'
import { CALL_TIMEOUT_MS, type Connection, connect } from '../redis/connection.ts'
import type { Settings } from '../settings/settings.ts'
import type { Context } from '../subcommand.ts'

/** What a change of the rules led to. */
export type Changed = Extract<Edited, { readonly kind: 'written' | 'unchanged' }>

/** The document of rules of a deployment, and its history. */
export class RulesOfWorker {
  readonly documents: Documents
  readonly #settings: Settings

  constructor({ client, secrets }: Pick<Connection, 'client' | 'secrets'>, settings: Settings) {
    const key = rulesKey(configOf(settings).keyPrefix)
    this.documents = new RedisDocuments({ client, secrets, key, timeoutMs: CALL_TIMEOUT_MS })
    this.#settings = settings
  }

  /**
   * Changes the rules, where policies have no part in it: should they not fit together, one can block all the same.
   * @throws {CommandError} @throws {StoreError}
   */
  change(change: (rules: Rules) => Rules, note: Note): Promise<Changed> {
    return this.#edited(editRules(this.documents, change, note))
  }

  /**
   * The same, if policies and overrides then fit together.
   * @param expectedVersion only if that is the newest one; left out, whichever is
   * @throws {CommandError} @throws {StoreError}
   */
  changeChecked(change: (rules: Rules) => Rules, note: Note, expectedVersion?: number): Promise<Changed> {
    return this.#edited(editRules(this.documents, change, note, { expectedVersion, check: this.#check }))
  }

  /** @throws {CommandError} @throws {StoreError} */
  rollBack(version: number, note: Note, expectedVersion: number): Promise<Changed> {
    return this.#edited(rollBackRules(this.documents, version, note, { expectedVersion, check: this.#check }))
  }

  readonly #check = (rules: Rules): void => checkRules(rules, environmentOf(this.#settings))

  async #edited(editing: Promise<Edited>): Promise<Changed> {
    const edited = await editing.catch((error: unknown) => {
      throw error instanceof ConfigError && error.variable === RULES ? new CommandError(error.message) : error
    })
    switch (edited.kind) {
      case 'written':
      case 'unchanged':
        return edited
      case 'conflict':
        throw new CommandError(`somebody else has changed the rules: version ${edited.version} is the newest`, {
          hint: 'Look at it, and try again.',
        })
      case 'too-large':
        throw new CommandError(`the rules would have more than ${edited.maxBytes} bytes`)
      case 'unknown-version':
        throw new CommandError('that version is not kept', { hint: 'sluice policies versions lists those that are.' })
    }
  }
}

/** Does something with the rules of the Worker's database, or of another one. */
export async function withRules<Result>(
  { env }: Pick<Context, 'env'>,
  settings: Settings,
  redis: string | undefined,
  work: (rules: RulesOfWorker, connection: Connection) => Promise<Result>,
): Promise<Result> {
  const connection = await connect(settings, env, redis)
  try {
    return await work(new RulesOfWorker(connection, settings), connection)
  } finally {
    await connection.close()
  }
}

/** Who does it, and why, for the history. */
export function noteOf(
  { env }: Pick<Context, 'env'>,
  { as, why }: { readonly as?: string | undefined; readonly why?: string | undefined },
  usual: string,
): Note {
  return { by: as ?? env.USER ?? env.LOGNAME ?? 'sluice', why: why ?? usual }
}

/** What may keep rules from having an effect. */
export function rulesNote({ variables }: Settings): string | undefined {
  return variables.RULES === 'on'
    ? undefined
    : 'note: RULES is not "on" here: unless it is where the Worker runs, rules have no effect'
}
