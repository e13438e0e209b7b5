import { ALGORITHMS } from '../algorithms/algorithm-table.ts'
import { OptionError } from '../config/option-error.ts'
import type { Charge } from '../engine/decider.ts'
import { createDigest, type Digest } from '../request/identity/digest.ts'
import { Lru } from '../runtime/lru.ts'
import { randomSlot } from '../runtime/random.ts'
import type { Policy } from './policies.ts'

/** What tells one caller from others: a text, or several, as in the gateway (`['token', value]`). */
export type Identity = string | readonly string[]

/** One for all policies, or one for each by its name. */
export type Identities = Identity | { readonly [policy: string]: Identity }

export interface ChargesOptions {
  readonly policies: readonly Policy[]
  /** First part of every key. */
  readonly prefix: string
  /** Key of the HMAC of identities; undefined: they are plainly hashed. */
  readonly secret: string | undefined
}

/** Most identities whose charges are remembered, so that neither hashes nor rules are made again for each decision. */
const MAX_REMEMBERED = 10_000
const MAX_REMEMBERED_CHARACTERS = 500

const IDENTITY_EXPECTED = 'a string or a list of strings'

/** Makes charges of identities: under which key each policy counts them. */
export class Charges {
  readonly #policies: readonly Policy[]
  readonly #digest: Digest
  readonly #prefix: string
  readonly #hasSlots: boolean
  /** Those of one unit, without slots. */
  readonly #ofTexts = new Lru<readonly Charge[]>(MAX_REMEMBERED)
  readonly #ofLists = new Lru<readonly Charge[]>(MAX_REMEMBERED)

  constructor({ policies, prefix, secret }: ChargesOptions) {
    this.#policies = policies
    this.#digest = createDigest(secret)
    this.#prefix = prefix
    this.#hasSlots = policies.some(({ algorithm }) => ALGORITHMS[algorithm].holdsSlots)
  }

  /**
   * @param cost units of each policy
   * @throws {OptionError} if that is no identity
   */
  of(identity: Identities, cost: number): readonly Charge[] {
    const charges =
      typeof identity === 'string'
        ? this.#remembered(this.#ofTexts, identity, identity)
        : Array.isArray(identity)
          ? this.#remembered(this.#ofLists, JSON.stringify(identity), identity)
          : this.#ofEach(identity as { readonly [policy: string]: Identity })
    if (cost === 1 && !this.#hasSlots) return charges
    return charges.map(({ rule, onStoreError }) => {
      const slot = ALGORITHMS[rule.algorithm].holdsSlots ? { slot: randomSlot() } : undefined
      return { rule: { ...rule, cost, ...slot }, onStoreError }
    })
  }

  #remembered(memory: Lru<readonly Charge[]>, text: string, identity: Identity): readonly Charge[] {
    const known = memory.get(text)
    if (known) return known
    const charges = this.#make(identity)
    if (text.length <= MAX_REMEMBERED_CHARACTERS) memory.set(text, charges)
    return charges
  }

  #ofEach(identities: { readonly [policy: string]: Identity }): readonly Charge[] {
    if (typeof identities !== 'object' || identities === null) {
      throw new OptionError('identity', IDENTITY_EXPECTED, identities)
    }
    const names = this.#policies.map(({ name }) => name)
    const stray = Object.keys(identities).find((name) => !names.includes(name))
    if (stray !== undefined) throw new OptionError('identity', `names of policies (${names.join(', ')})`, stray)
    return this.#policies.map(({ name }, index) => {
      const identity = identities[name]
      if (identity === undefined) throw new OptionError(`identity.${name}`, IDENTITY_EXPECTED, identity)
      if (typeof identity !== 'string' && !Array.isArray(identity)) {
        throw new OptionError(`identity.${name}`, IDENTITY_EXPECTED, identity)
      }
      return this.of(identity as Identity, 1)[index] as Charge
    })
  }

  #make(identity: Identity): readonly Charge[] {
    const parts = typeof identity === 'string' ? [identity] : identity
    if (parts.length === 0 || parts.some((part) => typeof part !== 'string')) {
      throw new OptionError('identity', IDENTITY_EXPECTED, identity)
    }
    const digest = this.#digest(parts)
    return this.#policies.map(({ name, algorithm, tiers, isEnforced, burst, block, onStoreError }) => ({
      rule: {
        key: `${this.#prefix}:${name}:${ALGORITHMS[algorithm].letter}:{${digest}}`,
        algorithm,
        tiers,
        cost: 1,
        enforced: isEnforced,
        reserved: 0,
        ...(burst !== undefined && { burst }),
        ...(block !== undefined && { block }),
      },
      onStoreError,
    }))
  }
}
