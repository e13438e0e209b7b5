import { callerIn } from '../model/charge.ts'
import { requestOf } from '../request/caller/caller.ts'
import { claimIn } from '../request/identity/claims.ts'
import { CALLER_KIND_NAMES, isShared, SOURCE_KINDS } from '../request/identity/source.ts'
import { targetOf } from '../rules/target.ts'
import { type CallerInput, callerOf, rulesOf } from './caller-schema.ts'
import { inForce } from './in-force.ts'
import type { Operated } from './operation.ts'

/**
 * All digests that a caller goes by: those under which policies count it, and those by which rules may name it.
 * @throws {OperationError | CallerError} if there is no such caller @throws {StoreError}
 */
export async function digestsOf(caller: CallerInput, operated: Operated): Promise<ReadonlySet<string>> {
  const { config } = operated
  const { policies } = await inForce(operated)
  const { rules } = await rulesOf({ ...config, policies }, { caller })
  if (caller.digest !== undefined) return new Set([caller.digest])
  // What is counted for everyone is not about this caller.
  const own = rules.filter(({ policy: { by } }) => !isShared(by))
  const digests = own.map(({ rule: { key } }) => callerIn(key))
  for (const by of namesOf(caller)) {
    const readClaim = (path: readonly string[]) => claimIn(caller.claim ?? {}, path)
    const target = await targetOf(by, requestOf(callerOf(caller)), { ...config, readClaim })
    if (target?.digest !== undefined) digests.push(target.digest)
  }
  return new Set(digests)
}

/** What rules can name it by. What is in a body, they know by the digest that a policy makes of it. */
function namesOf(caller: CallerInput): readonly string[] {
  return CALLER_KIND_NAMES.flatMap((kind) => {
    const said = caller[kind]
    if (said === undefined || SOURCE_KINDS[kind].isInBody) return []
    return typeof said === 'string' ? [kind] : Object.keys(said).map((name) => `${kind}:${name}`)
  })
}
