/** Builds the charges of an identity that a program names. */
import { ALGORITHMS, holdsSlots } from '../core/algorithms/algorithm-table.ts'
import { type Charge, formatKey } from '../core/model/charge.ts'
import type { Policy } from '../core/model/policy.ts'
import { OptionError } from '../core/options/option-error.ts'
import { createDigest, type Digest } from '../core/runtime/digest.ts'
import { drawNumber } from '../core/runtime/hash.ts'
import { Lru } from '../core/runtime/lru.ts'
import { findMaxCost, type LimiterPolicy, type PlanTerms, toTerms } from './policies.ts'

/** Distinguishes callers: a text, or several, as in the gateway (`['token', value]`). */
export type Identity = string | readonly string[]

/** One for all policies, or one for each by its name. */
export type Identities = Identity | { readonly [policy: string]: Identity }

export interface ChargeBuilderOptions {
  readonly policies: readonly LimiterPolicy[]
  readonly keyPrefix: string
  /** Key of the HMAC of identities; without it, they are plainly hashed. */
  readonly secret: string | undefined
  /** Keys hold short texts as they are: for keys that stay in this process. */
  readonly isReadable?: boolean
}

/** Identities whose charges are cached. */
const MAX_CACHED = 10_000
/** Longer texts are neither cached nor parts of keys. */
export const MAX_CHARACTERS = 500

export const IDENTITY_EXPECTED = 'a string that is not empty, or a list of strings'

interface Terms {
  readonly byPolicy: readonly (PlanTerms | undefined)[]
  /** Units that one decision may cost at most. */
  readonly maxCost: number
}

/** Builds the charge of each policy for an identity. */
export class ChargeBuilder {
  readonly #policies: readonly LimiterPolicy[]
  readonly #digest: Digest
  readonly #keyPrefix: string
  readonly #isReadable: boolean
  readonly #hasSlots: boolean
  /** Charges of one unit, without slots. */
  readonly #byText = new Lru<readonly Charge[]>(MAX_CACHED)
  readonly #byList = new Lru<readonly Charge[]>(MAX_CACHED)
  /** Limits of calls, by their names. */
  readonly #limits = new Lru<Terms>(MAX_CACHED)

  constructor({ policies, keyPrefix, secret, isReadable = false }: ChargeBuilderOptions) {
    this.#policies = policies
    this.#digest = createDigest(secret)
    this.#keyPrefix = keyPrefix
    this.#isReadable = isReadable
    this.#hasSlots = policies.some(holdsSlots)
  }

  /**
   * @param cost units of each policy
   * @param plan whose limits the policies that know it have, or the name of limits
   * @throws {OptionError} for an invalid identity
   */
  build(identity: Identities, cost: number, plan?: string): readonly Charge[] {
    const charges = this.#buildUnits(identity)
    if (cost === 1 && plan === undefined && !this.#hasSlots) return charges
    const terms = plan?.startsWith('{') ? this.findLimits(plan).byPolicy : undefined
    return charges.map((charge, index) => ({
      ...charge,
      cost,
      ...(plan !== undefined && (terms ? terms[index] : this.#policies[index]?.termsByPlan?.get(plan))),
      ...(holdsSlots(charge) && { slot: drawNumber() }),
    }))
  }

  /** Names limits of a call like a plan, which may have no such name: by policy, as JSON. @throws {OptionError} */
  nameLimits(limits: string | { readonly [policy: string]: string }): string {
    const names = this.#policies.map(({ name }) => name)
    const [only = '', ...others] = names
    if (typeof limits === 'string' && others.length === 0) return JSON.stringify({ [only]: limits })
    const isByPolicy = typeof limits === 'object' && limits !== null
    if (!isByPolicy) throw new OptionError('limits', `limits by policy (${names.join(', ')})`, limits)
    const stray = Object.keys(limits).find((name) => !names.includes(name))
    if (stray !== undefined) throw new OptionError('limits', `names of policies (${names.join(', ')})`, stray)
    return JSON.stringify(limits)
  }

  /** @param plan made by `nameLimits` @throws {OptionError} for limits that are none, or of other windows */
  findLimits(plan: string): Terms {
    const known = this.#limits.get(plan)
    if (known) return known
    const texts: Readonly<Record<string, string>> = JSON.parse(plan)
    const policies = this.#policies.map((policy) => {
      const text = texts[policy.name]
      return text === undefined ? policy : { ...policy, ...policy.readOther?.('limits', text), termsByPlan: undefined }
    })
    const byPolicy = policies.map((policy, at) => (policy === this.#policies[at] ? undefined : toTerms(policy, plan)))
    const found = { byPolicy, maxCost: findMaxCost(policies) }
    this.#limits.set(plan, found)
    return found
  }

  #buildUnits(identity: Identities): readonly Charge[] {
    // An empty text is most often an unset variable, which would make all such users one.
    if (identity === '') throw new OptionError('identity', IDENTITY_EXPECTED, identity)
    if (typeof identity === 'string') return this.#cache(this.#byText, identity, identity)
    if (Array.isArray(identity)) return this.#cache(this.#byList, JSON.stringify(identity), identity)
    if (typeof identity !== 'object' || identity === null) {
      throw new OptionError('identity', IDENTITY_EXPECTED, identity)
    }
    const byPolicy = identity as Readonly<Record<string, Identity>>
    const names = this.#policies.map(({ name }) => name)
    const stray = Object.keys(byPolicy).find((name) => !names.includes(name))
    if (stray !== undefined) throw new OptionError('identity', `names of policies (${names.join(', ')})`, stray)
    return names.map((name, index) => {
      const one = byPolicy[name]
      if (typeof one !== 'string' && !Array.isArray(one)) {
        throw new OptionError(`identity.${name}`, IDENTITY_EXPECTED, one)
      }
      return this.#buildUnits(one)[index] as Charge
    })
  }

  #cache(cache: Lru<readonly Charge[]>, text: string, identity: Identity): readonly Charge[] {
    const known = cache.get(text)
    if (known) return known
    const parts = typeof identity === 'string' ? [identity] : identity
    if (parts.length === 0 || parts.some((part) => typeof part !== 'string')) {
      throw new OptionError('identity', IDENTITY_EXPECTED, identity)
    }
    const [first = ''] = parts
    const isRaw = this.#isReadable && parts.length === 1 && first.length <= MAX_CHARACTERS
    const digest = isRaw ? first : this.#digest(parts)
    const charges = this.#policies.map((policy) => this.#buildUnit(policy, digest, isRaw))
    if (text.length <= MAX_CHARACTERS) cache.set(text, charges)
    return charges
  }

  /** @param isRaw true if the digest is the identity itself */
  #buildUnit(policy: Policy, digest: string, isRaw: boolean): Charge {
    const { name, algorithm, limits, mode, burst, penalty } = policy
    const { letter } = ALGORITHMS[algorithm]
    return {
      policy,
      digest,
      key: isRaw ? `${this.#keyPrefix}:${name}:${letter}:=${digest}` : formatKey(this.#keyPrefix, name, letter, digest),
      algorithm,
      limits,
      cost: 1,
      mode,
      reserved: 0,
      ...(burst !== undefined && { burst }),
      ...(penalty !== undefined && { penalty }),
    }
  }
}

/** Builds the charge of one policy, once. @throws {OptionError} for an invalid identity */
export function createPolicyCharge(
  policy: LimiterPolicy,
  options: Pick<ChargeBuilderOptions, 'keyPrefix' | 'secret'>,
  identity: Identity,
  cost: number,
): Charge {
  const [charge] = new ChargeBuilder({ policies: [policy], ...options }).build(identity, cost)
  return charge as Charge
}
