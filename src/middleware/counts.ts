/** Reads and resets what a middleware has counted of a caller, for the application. */
import type { Engine } from '../core/engine/engine.ts'
import type { RequestCharge } from '../core/model/charge.ts'
import { formatSource, isShared } from '../core/model/identity-source.ts'
import type { RequestPolicy } from '../core/model/policy.ts'
import { OptionError } from '../core/options/option-error.ts'
import { createDigest } from '../core/runtime/digest.ts'
import type { Log } from '../core/runtime/log.ts'
import { createDigestCharge, type RequestChargeBuilderOptions } from '../http/request/charge-builder.ts'
import { formatCallerAddress } from '../http/request/identity/address.ts'
import { readAuthorization } from '../http/request/identity/authorization.ts'
import { foldReading } from '../http/request/identity/fold.ts'
import { createRequestContext } from '../http/response/exchange.ts'
import { IDENTITY_EXPECTED, type Identities, type Identity } from '../library/charge-builder.ts'
import { type LimiterDecision, toDecision } from '../library/decision.ts'

/**
 * The counts of callers. An identity is the value that policies count by: of `by`, or what `identify` returns, such as
 * `user.id` or an address; or a list with kinds, such as `['ip', address]` for a caller without identity; or one of
 * these for each policy that is meant, by its name.
 */
export interface CallerCounts {
  /**
   * Deletes the counts of an identity at once, and penalties.
   * @example await limited.reset(user.id)
   * @throws {OptionError} for an invalid identity. @throws {StoreError} if the store gives no answer
   */
  reset(identity: Identities): Promise<void>
  /**
   * Decides as the next request of an identity would be, without counting it.
   * @param options the plan, where limits differ by plan
   * @example const { granted, limits } = await limited.peek(user.id)
   * @throws {OptionError} for an invalid identity
   */
  peek(identity: Identities, options?: { readonly plan?: string | undefined }): Promise<LimiterDecision>
}

type CountingOptions = Pick<RequestChargeBuilderOptions, 'policies' | 'keyPrefix' | 'identitySecret' | 'ipv6Prefix'>

export function createCounts(options: CountingOptions, engine: Engine, log: Log): CallerCounts {
  const { keyPrefix, identitySecret, ipv6Prefix } = options
  const policies = options.policies.filter(({ limits }) => limits.length > 0)
  const names = policies.map(({ name }) => name).join(', ')
  const digest = createDigest(identitySecret)
  const isAlike = new Set(policies.map(({ by, fold }) => JSON.stringify([by, fold]))).size === 1

  function findCharges(identities: Identities, plan?: string): readonly RequestCharge[] {
    if (typeof identities === 'string' || Array.isArray(identities) || !identities) {
      const identity = identities as Identity
      if (identity && typeof identity === 'string' && !isAlike) {
        throw new OptionError('identity', `one for each policy (${names})`, identity)
      }
      return policies.map((policy) => createCharge(policy, identity, plan))
    }
    return Object.entries(identities).map(([name, identity]) => {
      const policy = policies.find((each) => each.name === name)
      if (!policy) throw new OptionError('identity', `names of policies (${names})`, name)
      return createCharge(policy, identity, plan)
    })
  }

  function createCharge(policy: RequestPolicy, identity: Identity, plan?: string): RequestCharge {
    const parts = typeof identity === 'string' ? readValue(policy, identity) : identity
    if (!Array.isArray(parts) || parts.length < 2 || parts.some((part) => typeof part !== 'string')) {
      throw new OptionError('identity', IDENTITY_EXPECTED, identity)
    }
    const formatted = parts.map((part, at) => (at % 2 && parts[at - 1] === 'ip' ? formatAddress(part) : part))
    return createDigestCharge(policy, digest(formatted), keyPrefix, plan)
  }

  function readValue({ by, fold }: RequestPolicy, value: string): readonly string[] | undefined {
    const [source, ...others] = by
    if (!source || others.length > 0 || isShared(by) || value === '') return undefined
    const text = source.kind === 'claim' ? JSON.stringify(value) : value
    const read = source.kind === 'token' ? readAuthorization(text) : foldReading(source, text, fold ?? '')
    return read.kind === 'value' ? [formatSource(source), read.value] : undefined
  }

  function formatAddress(text: string): string {
    const address = formatCallerAddress(text.split('/')[0] ?? '', ipv6Prefix)
    if (address === 'unknown' && text !== address) throw new OptionError('identity', 'an address', text)
    return address
  }

  return {
    async reset(identity) {
      await engine.delete(findCharges(identity).map(({ key }) => key))
    },
    async peek(identity, { plan } = {}) {
      const charges = findCharges(identity, plan)
      const context = createRequestContext(() => {}, log)
      try {
        return toDecision(await engine.decide(charges, context, { action: 'peek', permits: 1 }), 0)
      } finally {
        context.deadlines.end()
      }
    },
  }
}
