import { requestOf } from '../request/caller/caller.ts'
import { callerIn } from '../request/caller-in-key.ts'
import { claimIn } from '../request/identity/claims.ts'
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
  const digests = rules.map(({ rule: { key } }) => callerIn(key))
  for (const by of namesOf(caller)) {
    const readClaim = (path: readonly string[]) => claimIn(caller.claim ?? {}, path)
    const target = await targetOf(by, requestOf(callerOf(caller)), { ...config, readClaim })
    if (target?.digest !== undefined) digests.push(target.digest)
  }
  return new Set(digests)
}

/** What it can be named by. */
function namesOf({ token, ip, header = {}, query = {}, claim = {} }: CallerInput): readonly string[] {
  return [
    ...(token === undefined ? [] : ['token']),
    ...(ip === undefined ? [] : ['ip']),
    ...Object.keys(header).map((name) => `header:${name}`),
    ...Object.keys(query).map((name) => `query:${name}`),
    ...Object.keys(claim).map((name) => `claim:${name}`),
  ]
}
