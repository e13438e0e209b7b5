/** Finds out which of several databases answer, and when a change of them is complete. */
import { findLayouts } from '../../core/engine/places/shards.ts'
import { type Circuit, type Shard, StoreError, type StorePlace } from '../../core/model/store.ts'
import type { Backend } from '../../core/store/backend.ts'
import { type DocumentStore, NO_DOCUMENT, type StoredDocument } from '../../core/store/documents.ts'
import type { Config } from '../../http/config/load-config.ts'
import { findLongestMs } from '../../http/config/shards.ts'
import { isHeldOpen } from '../../http/request/charge-builder.ts'
import { formatLayout, nameShardDocuments, OPEN_REPORT_MS } from './open-responses.ts'

/** Isolates with the settings of before decide for at most so long after a deploy. */
const ROLLOUT_MS = 60_000

export interface PlaceHealth {
  readonly reachable: boolean
  /** Null if it did not answer. */
  readonly rttMs: number | null
  readonly circuit: Circuit
}

/** The names and states of the shards, as the databases were last told. */
export interface LayoutHealth {
  /** Milliseconds since the Unix epoch. */
  readonly sinceMs: number
  /**
   * When what moves has been counted in both places for a longest window, and a minute more; null if nothing moves. It is
   * later while responses are open that began before.
   */
  readonly completeAtMs: number | null
  /** A change that may lose counts or rules, or that waits for something to end; null once that is over. */
  readonly warning: string | null
}

export interface ShardHealthOptions {
  readonly config: Pick<Config, 'keyPrefix' | 'policies' | 'shards'>
  readonly backend: Backend
  readonly now: () => number
}

export type ShardHealthReader = Awaited<ReturnType<typeof openShardHealth>>

/** @returns finds out how late the last of the databases answers, and how each does */
export async function openShardHealth({ config, backend, now }: ShardHealthOptions) {
  const { keyPrefix, policies, shards = [] } = config
  const names = nameShardDocuments(keyPrefix)
  const open = async (key: string) => (await backend.documentsOfEach?.(key)) ?? [await backend.documents(key)]
  const [places, openings] = [await open(names.layout), await open(names.open)]
  const held = policies.filter(isHeldOpen).map(({ name }) => name)
  // What is open is told of after a while.
  const longestMs = findLongestMs(policies) + ROLLOUT_MS + (held.length > 0 ? OPEN_REPORT_MS : 0)
  const { byName } = backend.limits.places ?? { byName: new Map<string, StorePlace>() }
  let hasWritten = false

  async function readPlace(place: StorePlace, startedAtMs: number): Promise<PlaceHealth> {
    const reachable = await place.ping().then(
      () => true,
      () => false,
    )
    return { reachable, rttMs: reachable ? now() - startedAtMs : null, circuit: place.circuit }
  }

  return async function readShardHealth() {
    const startedAtMs = now()
    const pings = [...byName].map(async ([name, place]) => [name, await readPlace(place, startedAtMs)] as const)
    const health: Readonly<Record<string, PlaceHealth>> = Object.fromEntries(await Promise.all(pings))
    const reachable = Object.values(health).every((place) => place.reachable)
    const rttMs = reachable ? now() - startedAtMs : null
    try {
      const layout = await readLayout({ places, openings, shards, longestMs, held, hasWritten })
      hasWritten = true
      return { reachable, rttMs, shards: health, layout }
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
      return { reachable, rttMs, shards: health }
    }
  }
}

type ShardStates = Readonly<Record<string, string>>

interface LayoutParts {
  /** Each database has the document, so that another first one is noticed, which is without rules. */
  readonly places: readonly DocumentStore[]
  /** Written while responses are open that began with another layout. */
  readonly openings: readonly DocumentStore[]
  readonly shards: readonly Shard[]
  /** After which all counts have expired that isolates of before may have made. */
  readonly longestMs: number
  /** The policies that charge or hold until a response has ended. */
  readonly held: readonly string[]
  readonly hasWritten: boolean
}

/** Reads when the layout was first seen, and writes it unless another isolate has. */
async function readLayout({
  places,
  openings,
  shards,
  longestMs,
  held,
  hasWritten,
}: LayoutParts): Promise<LayoutHealth> {
  const text = formatLayout(shards)
  // Rules are in the first.
  const actor = shards[0]?.name ?? ''
  const [found, opened] = await Promise.all([readEach(places), readEach(openings)])
  const openAtMs = Math.max(...opened.map(({ atMs }) => atMs))
  const latest = found.reduce((a, b) => (b.atMs > a.atMs ? b : a))
  // Databases write it at slightly different times, of which the first one's counts.
  let newest: Pick<StoredDocument, 'actor' | 'atMs' | 'comment' | 'text'> =
    found.find(({ text, actor }) => text === latest.text && actor === latest.actor) ?? latest
  // Isolates of before and after must not write in turn; after the rollout, the latter have the last word.
  const isChanged = newest.text !== text || newest.actor !== actor
  if (isChanged && (!hasWritten || Date.now() > newest.atMs + ROLLOUT_MS)) {
    const before = newest
    const isSoon = Date.now() < Math.max(before.atMs, openAtMs) + longestMs
    const loss = before.text === '' ? '' : findLoss(JSON.parse(before.text), JSON.parse(text), isSoon)
    const isOther = before.actor !== '' && before.actor !== actor
    const rules = isOther ? `${actor} is the first now, and rules and blocks are in ${before.actor}` : ''
    const comment = [rules, loss].filter(Boolean).join('; ')
    const written = await Promise.all(
      places.map((documents, at) => {
        const { version: expectedVersion, id: expectedId } = found[at] as StoredDocument
        const writing = documents.write({ text, expectedVersion, expectedId, actor, comment })
        return at === 0 ? writing : ignoreStoreError(writing)
      }),
    )
    const [own] = written
    newest = own?.kind === 'written' ? { text, actor, comment, atMs: own.atMs } : before
  }
  const { atMs: sinceMs, comment } = newest
  const isOver = Date.now() >= sinceMs + longestMs
  const { isMoving } = findLayouts(shards)
  const waits =
    isMoving && openAtMs > sinceMs && Date.now() < openAtMs + ROLLOUT_MS
      ? `responses that began before this change are open, and counted in their old place alone, by ${held.join(', ')}`
      : ''
  const warnings = [isOver ? '' : comment, waits].filter(Boolean)
  return {
    sinceMs,
    completeAtMs: isMoving ? Math.max(sinceMs, openAtMs) + longestMs : null,
    warning: warnings.join('; ') || null,
  }
}

function readEach(places: readonly DocumentStore[]): Promise<readonly StoredDocument[]> {
  return Promise.all(
    places.map(async (documents, at) => {
      const reading = documents.read()
      return (await (at === 0 ? reading : ignoreStoreError(reading))) ?? NO_DOCUMENT
    }),
  )
}

/** Waits for a call to another database: the first one is enough while others are unavailable. */
function ignoreStoreError<T>(call: Promise<T>): Promise<T | undefined> {
  return call.catch((error: unknown) => {
    if (error instanceof StoreError) return undefined
    throw error
  })
}

/** @returns what was changed without the time in which both places count; empty if nothing was */
function findLoss(before: ShardStates, after: ShardStates, isSoon: boolean): string {
  const names = [...new Set([...Object.keys(after), ...Object.keys(before)])]
  const losses = names.map((name) => {
    const [was, is] = [before[name], after[name]]
    if (is === '' && was === undefined) return `${name} was added without having joined`
    if (is === undefined && was === '') return `${name} was removed without having left`
    if (!isSoon) return ''
    if (is === '' && was === 'joining') return `${name} counts alone sooner than after the longest window`
    return is === undefined && was === 'leaving' ? `${name} was removed sooner than after the longest window` : ''
  })
  return losses.filter(Boolean).join('; ')
}
