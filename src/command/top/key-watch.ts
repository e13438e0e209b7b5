import { callerIn } from '../../model/charge.ts'
import type { Store } from '../../model/store.ts'
import { StoreError } from '../../model/store.ts'
import type { CallerRule } from '../../request/caller/rules-of-caller.ts'
import { readUsage } from '../../request/caller/rules-of-caller.ts'
import type { Database } from '../upkeep/database.ts'
import { countBare } from '../upkeep/jobs.ts'
import { SCRIPT_BUDGET_US } from '../upkeep/pace.ts'
import { shareOfTable } from '../upkeep/share-of-table.ts'
import { fullestTier, isAtLimit, isIdle, type Look, unitsPerSecond } from './activity.ts'
import type { OwnKeys } from './own-keys.ts'

/** A key among the busiest, or among those at their limits. */
export interface Row {
  readonly policy: string
  readonly identity: string
  /** Units admitted in a second, of late; null where that cannot be told. */
  readonly unitsPerS: number | null
  /** The tier of which the largest share is used. */
  readonly tier: string
  readonly used: number
  readonly limit: number
  /** Until a request of one unit is admitted; 0: now. */
  readonly retryAfterMs: number
  /** How often it was looked at, and how often it was at a limit. */
  readonly looks: number
  readonly looksAtLimit: number
}

export interface Findings {
  /** Keys of the prefix, by estimate while the first pass goes on. */
  readonly keys: number
  /** Share of the database gone through in this pass, 0 to 1. */
  readonly share: number
  readonly passes: number
  /** In the latest whole pass, or this one if it is the first: */
  readonly withoutTtl: number
  /** of no policy that is configured. */
  readonly unknown: number
  readonly busiest: readonly Row[]
  readonly atLimit: readonly Row[]
}

export interface KeyWatchOptions {
  readonly database: Database
  readonly store: Pick<Store, 'decide'>
  readonly ownKeys: OwnKeys
  /** New keys that are read in one look. */
  readonly sample: number
  /** Rows of each list. */
  readonly rows: number
}

const COUNT = 1_000
/** Pages of one look, where few keys are ours. */
const MOST_PAGES = 10
/** Keys of one script: half a millisecond. */
const AT_ONCE = 25
/** What comes into the lists as others leave is read in turn; then the rest is left for the next look. */
const MOST_ROUNDS = 4
/** The least busy are forgotten beyond. */
const MOST_REMEMBERED = 5_000

interface Watched {
  readonly asked: CallerRule
  look: Look
  unitsPerS: number | undefined
  looks: number
  looksAtLimit: number
  /** Number of the look that has read it last. */
  readAtLook: number
}

interface Pass {
  seen: number
  withoutTtl: number
  unknown: number
}

const NEW_PASS: Pass = { seen: 0, withoutTtl: 0, unknown: 0 }

/** Gets to know a prefix's keys by going through them bit by bit, and looks at those again that were busy. */
export class KeyWatch {
  readonly #options: KeyWatchOptions
  readonly #watched = new Map<string, Watched>()
  #cursor = '0'
  #look = 0
  #passes = 0
  #pass: Pass = { ...NEW_PASS }
  #latestPass: Pass | undefined

  constructor(options: KeyWatchOptions) {
    this.#options = options
  }

  /** @throws {StoreError | DatabaseError} */
  async look(): Promise<Findings> {
    this.#look++
    const { ownKeys } = this.#options
    const found = new Set(await this.#nextKeys())
    await this.#readAll([...found].flatMap((key) => ownKeys.ruleOf(key) ?? []))
    for (let round = 0; round < MOST_ROUNDS; round++) {
      const stale = this.#listed()
        .flat()
        .filter((watched) => !this.#isFresh(watched))
      await this.#readAll([...new Set(stale)].map(({ asked }) => asked))
    }
    this.#forgetLeastBusy()
    const share = this.#cursor === '0' ? 1 : shareOfTable(this.#cursor)
    const told = this.#latestPass ?? this.#pass
    const [busiest, atLimit] = this.#listed().map((list) => list.filter((each) => this.#isFresh(each)).map(toRow))
    return {
      keys: this.#latestPass?.seen ?? Math.round(this.#pass.seen / share),
      ...{ share, passes: this.#passes, withoutTtl: told.withoutTtl, unknown: told.unknown },
      busiest: busiest ?? [],
      atLimit: atLimit ?? [],
    }
  }

  /** Goes on through the database until enough keys are there, or the pass is over. */
  async #nextKeys(): Promise<string[]> {
    const { database, ownKeys, sample } = this.#options
    if (this.#cursor === '0') this.#pass = { ...NEW_PASS }
    const found: string[] = []
    for (let page = 0; page < MOST_PAGES && found.length < sample; page++) {
      const { cursor, keys } = await database.scan(this.#cursor, ownKeys.pattern, Math.min(COUNT, sample))
      const names = keys.map(String)
      await this.#count(names)
      found.push(...names)
      this.#cursor = cursor
      if (cursor !== '0') continue
      this.#passes++
      this.#latestPass = this.#pass
      break
    }
    return found
  }

  async #count(names: readonly string[]): Promise<void> {
    const { database, ownKeys } = this.#options
    this.#pass.seen += names.length
    const counting = names.filter((name) => !ownKeys.isRules(name))
    this.#pass.unknown += counting.filter((name) => !ownKeys.ruleOf(name) && !ownKeys.isOfShadow(name)).length
    for (let rest: readonly string[] = counting; rest.length > 0; ) {
      const { changed, kept, gone } = await countBare.apply(database, rest, SCRIPT_BUDGET_US)
      this.#pass.withoutTtl += changed
      rest = rest.slice(changed + kept + gone)
    }
  }

  /** Whether this look has read it. */
  #isFresh({ readAtLook }: Watched): boolean {
    return readAtLook === this.#look
  }

  async #readAll(asked: readonly CallerRule[]): Promise<void> {
    for (let first = 0; first < asked.length; first += AT_ONCE) await this.#read(asked.slice(first, first + AT_ONCE))
  }

  async #read(asked: readonly CallerRule[]): Promise<void> {
    let usage: Awaited<ReturnType<typeof readUsage>>
    try {
      usage = await readUsage(this.#options.store, asked)
    } catch (error) {
      if (!(error instanceof StoreError) || asked.length === 1) return this.#passOver(error, asked)
      // One of them holds something else than its name says.
      for (const one of asked) await this.#read([one])
      return
    }
    const { nowMs, tiers } = usage
    let at = 0
    for (const one of asked) {
      const look = { nowMs, tiers: tiers.slice(at, at + one.policy.tiers.length) }
      at += one.policy.tiers.length
      this.#remember(one, look)
    }
  }

  #passOver(error: unknown, [asked]: readonly CallerRule[]): void {
    if (!(error instanceof StoreError) || !asked || !/WRONGTYPE|user_script|Lua/.test(error.message)) throw error
    this.#watched.delete(asked.rule.key)
  }

  #remember(asked: CallerRule, look: Look): void {
    const { key } = asked.rule
    const before = this.#watched.get(key)
    if (isIdle(look)) {
      this.#watched.delete(key)
      return
    }
    this.#watched.set(key, {
      asked,
      look,
      unitsPerS: unitsPerSecond(asked.policy, look, before?.look),
      looks: (before?.looks ?? 0) + 1,
      looksAtLimit: (before?.looksAtLimit ?? 0) + (isAtLimit(look) ? 1 : 0),
      readAtLook: this.#look,
    })
  }

  /** The busiest, and those that were at their limits most often. */
  #listed(): [Watched[], Watched[]] {
    const { rows } = this.#options
    const all = [...this.#watched.values()]
    const busiest = all.toSorted(byRate).slice(0, rows)
    const atLimit = all
      .filter(({ looksAtLimit }) => looksAtLimit > 0)
      .toSorted(
        (a, b) =>
          b.looksAtLimit / b.looks - a.looksAtLimit / a.looks || b.looksAtLimit - a.looksAtLimit || byRate(a, b),
      )
      .slice(0, rows)
    return [busiest, atLimit]
  }

  #forgetLeastBusy(): void {
    if (this.#watched.size <= MOST_REMEMBERED) return
    const kept = new Set(this.#listed().flat())
    for (const watched of [...this.#watched.values()].toSorted((a, b) => byRate(b, a))) {
      if (this.#watched.size <= MOST_REMEMBERED / 2) break
      if (!kept.has(watched)) this.#watched.delete(watched.asked.rule.key)
    }
  }
}

/** Where no rate is known, by the share that is used. */
function byRate(a: Watched, b: Watched): number {
  const share = ({ look }: Watched) => {
    const { used, limit } = fullestTier(look)
    return used / limit
  }
  return (b.unitsPerS ?? 0) - (a.unitsPerS ?? 0) || share(b) - share(a)
}

function toRow({ asked: { policy, rule }, look, unitsPerS, looks, looksAtLimit }: Watched): Row {
  const { tier, used, limit } = fullestTier(look)
  return {
    policy: policy.name,
    identity: callerIn(rule.key),
    unitsPerS: unitsPerS === undefined ? null : Math.round(unitsPerS * 1_000) / 1_000,
    ...{ tier, used, limit },
    retryAfterMs: Math.max(...look.tiers.map(({ retryAfterMs }) => retryAfterMs)),
    ...{ looks, looksAtLimit },
  }
}
