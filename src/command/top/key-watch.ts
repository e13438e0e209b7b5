/** Watches the keys of Redis by SCAN, a few pages at a time. */
import { ALGORITHMS } from '../../core/algorithms/algorithm-table.ts'
import { isEnforced, type RequestPolicy } from '../../core/model/policy.ts'
import { type Store, StoreError } from '../../core/model/store.ts'
import { type CallerCharge, listAssumedPlans, readUsage } from '../../gateway/callers/caller-charges.ts'
import type { Rules } from '../../gateway/rules/document.ts'
import { createDigestTest, listUndecided, type RuleEffects } from '../../gateway/rules/rule-effects.ts'
import type { Config } from '../../http/config/load-config.ts'
import { createDigestCharge } from '../../http/request/charge-builder.ts'
import type { Connection } from '../redis/connection.ts'
import { countBare, findShareOfTable, SCRIPT_BUDGET_US, scan } from '../upkeep/database.ts'
import { countUnitsPerSecond, findFullestLimit, isAtLimit, isIdle, type Look } from './activity.ts'

const COUNT = 1_000
/** Pages of one look, if few keys are of Sluice. */
const MAX_PAGES = 10
/** Keys per script, which then takes half a millisecond. */
const BATCH = 25
/** The keys that were read longest ago are dropped beyond this; those listed are read at each look. */
const MAX_REMEMBERED = 5_000

export interface KeyWatchOptions {
  readonly connection: Connection
  readonly store: Pick<Store, 'decide'>
  readonly sample: number
  readonly rows: number
}

/** The rules and policies that are active when keys are read. */
export interface ActiveKeys {
  readonly ownKeys: OwnKeys
  readonly rules: Rules
  /** Finds what the rules make of the charge of a digest. */
  readonly applyRules: (charges: readonly CallerCharge[]) => Promise<RuleEffects>
}

interface Watched {
  readonly charge: CallerCharge
  readonly effect: string | null
  readonly undecided: readonly string[]
  readonly look: Look
  readonly unitsPerS: number | undefined
  readonly looks: number
  readonly looksAtLimit: number
  readonly readAtLook: number
}

const NO_KEYS = { seen: 0, withoutTtl: 0, unknown: 0 }

export type Findings = Awaited<ReturnType<KeyWatch['look']>>
export type KeyRow = ReturnType<typeof toRow>

/** Goes through the keys of a prefix in small steps, and reads the busy ones again at each look. */
export class KeyWatch {
  readonly #options: KeyWatchOptions
  readonly #watched = new Map<string, Watched>()
  #cursor = '0'
  #look = 0
  #passes = 0
  #pass = { ...NO_KEYS }
  #latestPass: typeof NO_KEYS | undefined

  constructor(options: KeyWatchOptions) {
    this.#options = options
  }

  async look(active: ActiveKeys) {
    this.#look++
    const { rows } = this.#options
    // Keys that have become idle leave the lists, so more are read than are shown.
    const listed = [...this.#listBusiest().slice(0, 2 * rows), ...this.#listAtLimit().slice(0, 2 * rows)]
    const keys = new Set([...(await this.#scanNext(active)), ...listed.map(({ charge }) => charge.key)])
    const found: ActiveKey[] = []
    for (const key of keys) {
      const charge = active.ownKeys.findCharge(key)
      if (charge) found.push(await applyActive(charge, active))
      else this.#watched.delete(key)
    }
    for (let first = 0; first < found.length; first += BATCH) await this.#read(found.slice(first, first + BATCH))
    const share = this.#cursor === '0' ? 1 : findShareOfTable(this.#cursor)
    const { withoutTtl, unknown } = this.#latestPass ?? this.#pass
    const isFresh = ({ readAtLook }: Watched) => readAtLook === this.#look
    const toRows = (list: readonly Watched[]) => list.filter(isFresh).slice(0, rows).map(toRow)
    return {
      /** An estimate during the first pass. */
      keys: this.#latestPass?.seen ?? Math.round(this.#pass.seen / share),
      share,
      passes: this.#passes,
      withoutTtl,
      unknown,
      busiest: toRows(this.#listBusiest()),
      atLimit: toRows(this.#listAtLimit()),
    }
  }

  async #scanNext({ ownKeys }: ActiveKeys): Promise<string[]> {
    const { connection, sample } = this.#options
    if (this.#cursor === '0') this.#pass = { ...NO_KEYS }
    const collected: string[] = []
    for (let page = 0; page < MAX_PAGES && collected.length < sample; page++) {
      const { cursor, keys } = await scan(connection, this.#cursor, ownKeys.pattern, Math.min(COUNT, sample))
      const names = keys.map(String)
      await this.#count(names, ownKeys)
      collected.push(...names)
      this.#cursor = cursor
      if (cursor !== '0') continue
      this.#passes++
      this.#latestPass = this.#pass
      break
    }
    return collected
  }

  async #count(names: readonly string[], ownKeys: OwnKeys): Promise<void> {
    const { connection } = this.#options
    this.#pass.seen += names.length
    this.#pass.unknown += names.filter((name) => !ownKeys.findCharge(name) && !ownKeys.isOther(name)).length
    for (let rest = names; rest.length > 0; ) {
      const { changed, kept, gone } = await countBare.apply(connection, rest, SCRIPT_BUDGET_US)
      this.#pass.withoutTtl += changed
      rest = rest.slice(changed + kept + gone)
    }
  }

  async #read(keys: readonly ActiveKey[]): Promise<void> {
    const charges = keys.map(({ charge }) => charge)
    let usage: Awaited<ReturnType<typeof readUsage>>
    try {
      usage = await readUsage(this.#options.store, charges)
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
      // One of the keys holds something other than its name says.
      if (keys.length > 1) for (const each of keys) await this.#read([each])
      else if (/WRONGTYPE|user_script|Lua/.test(error.message)) this.#watched.delete(charges[0]?.key ?? '')
      else throw error
      return
    }
    for (const [index, each] of keys.entries()) {
      this.#remember(each, { nowMs: usage.nowMs, limits: usage.limits[index] ?? [] })
    }
  }

  #remember(active: ActiveKey, look: Look): void {
    const { charge } = active
    const { key } = charge
    const before = this.#watched.get(key)
    this.#watched.delete(key)
    if (isIdle(look)) return
    const looks = (before?.looks ?? 0) + 1
    const looksAtLimit = (before?.looksAtLimit ?? 0) + (isAtLimit(look) ? 1 : 0)
    const unitsPerS = countUnitsPerSecond(charge.policy, look, before?.look)
    this.#watched.set(key, { ...active, look, unitsPerS, looks, looksAtLimit, readAtLook: this.#look })
    const [oldest = ''] = this.#watched.keys()
    if (this.#watched.size > MAX_REMEMBERED) this.#watched.delete(oldest)
  }

  #listBusiest(): Watched[] {
    return [...this.#watched.values()].toSorted(compareRates)
  }

  #listAtLimit(): Watched[] {
    const share = ({ looks, looksAtLimit }: Watched) => looksAtLimit / looks
    return [...this.#watched.values()]
      .filter(({ looksAtLimit }) => looksAtLimit > 0)
      .toSorted((a, b) => share(b) - share(a) || b.looksAtLimit - a.looksAtLimit || compareRates(a, b))
  }
}

function compareRates(a: Watched, b: Watched): number {
  const share = ({ look }: Watched) => {
    const { used, limit } = findFullestLimit(look)
    return used / limit
  }
  return (b.unitsPerS ?? 0) - (a.unitsPerS ?? 0) || share(b) - share(a)
}

type ActiveKey = Pick<Watched, 'charge' | 'effect' | 'undecided'>

/** Finds what is active for a key. */
async function applyActive(before: CallerCharge, { rules, applyRules }: ActiveKeys): Promise<ActiveKey> {
  const { charges, blocked } = await applyRules([before])
  const [charge = before] = charges
  const isOverridden = charge.plan !== charge.planName
  const ofCharge = charge.isUnlimited
    ? 'unlimited'
    : !isEnforced(charge)
      ? charge.mode
      : isOverridden
        ? 'override'
        : null
  const effect = blocked && !blocked.isShadow ? `blocked, ${blocked.status}` : ofCharge
  return {
    charge,
    effect,
    undecided: listUndecided(rules, createDigestTest(rules, [charge], charge.digest), Date.now()),
  }
}

function toRow({ charge, effect, undecided, look, unitsPerS, looks, looksAtLimit }: Watched) {
  const { name: limitName, used, limit } = findFullestLimit(look)
  return {
    policy: charge.policy.name,
    plan: look.limits[0]?.plan ?? null,
    digest: charge.digest,
    /** Effect of a rule or of shadow mode on the caller; null if none is known. */
    effect,
    /** Parts of a request that rules go by and that keys do not tell: such rules may apply, too. */
    undecided,
    unitsPerS: unitsPerS === undefined ? null : Math.round(unitsPerS * 1_000) / 1_000,
    limitName,
    used,
    limit,
    retryAfterMs: Math.max(...look.limits.map(({ retryAfterMs }) => retryAfterMs)),
    looks,
    looksAtLimit,
  }
}

/** Keys do not tell a plan: only the largest tells all that was used, and never that a caller is limited who is not. */
function findLargest(charge: CallerCharge): CallerCharge {
  const findLimit = ({ limits: [first] }: CallerCharge) => first?.limit ?? 0
  return listAssumedPlans(charge).reduce((largest, each) => (findLimit(each) > findLimit(largest) ? each : largest))
}

/** Recognizes the keys of Sluice: `<prefix>:<policy>:<algorithm letter>:{<digest>}`. */
export class OwnKeys {
  readonly pattern: string
  readonly #prefix: string
  /** Charges of no digest yet, by policy name and algorithm letter. */
  readonly #charges: ReadonlyMap<string, CallerCharge>

  constructor({ keyPrefix, policies }: Pick<Config, 'keyPrefix' | 'policies'>) {
    this.#prefix = `${keyPrefix}:`
    // A prefix has no special characters of patterns.
    this.pattern = `${this.#prefix}*`
    const formatName = ({ name, algorithm }: RequestPolicy) => `${name}:${ALGORITHMS[algorithm].letter}`
    const limiting = policies.filter(({ limits }) => limits.length > 0)
    this.#charges = new Map(
      limiting.map((policy) => [
        formatName(policy),
        { ...findLargest(createDigestCharge(policy, '', keyPrefix)), cost: 1 },
      ]),
    )
  }

  /** Recognizes the rule set, its audit log, the layout of several databases and statistics. */
  isOther(key: string): boolean {
    return /^(?:rules|audit|shards|statistics:.*)$/s.test(key.slice(this.#prefix.length))
  }

  /** @returns undefined if no configured policy has such keys */
  findCharge(key: string): CallerCharge | undefined {
    if (!key.startsWith(this.#prefix)) return undefined
    const [, name = '', digest = ''] = /^([\w-]+:\w):\{([^{}]+)\}$/.exec(key.slice(this.#prefix.length)) ?? []
    const charge = this.#charges.get(name)
    return charge && { ...charge, digest, key }
  }
}
