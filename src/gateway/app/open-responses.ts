/**
 * Lets a change of databases wait for responses that began before it. Their isolate charges them, and renews their slots,
 * where it was started to, which is not where others look once the change is complete: so it says that they are open.
 */
import type { Shard } from '../../core/model/store.ts'
import type { StartReports, Timers } from '../../core/runtime/call-context.ts'
import type { Backend } from '../../core/store/backend.ts'
import { NO_DOCUMENT } from '../../core/store/documents.ts'
import type { Config } from '../../http/config/load-config.ts'

/** A response that lasts so long is told of, and again each time; two isolates that tell at once are told of once. */
export const OPEN_REPORT_MS = 20_000

/** Names the documents that have the layout, and the time when a response of another layout was last open. */
export function nameShardDocuments(keyPrefix: string) {
  return { layout: `${keyPrefix}:shards`, open: `${keyPrefix}:shards-open` }
}

/** Formats the names and states of shards: the same for each order of them. */
export function formatLayout(shards: readonly Shard[]): string {
  const states = shards.toSorted((a, b) => (a.name < b.name ? -1 : 1)).map(({ name, state = '' }) => [name, state])
  return JSON.stringify(Object.fromEntries(states))
}

export interface OpenResponsesOptions {
  readonly config: Pick<Config, 'keyPrefix' | 'shards'>
  readonly backend: Pick<Backend, 'documents'>
  readonly now: () => number
}

/** Watches the responses of an isolate. Its latest report is plain data, since no request may await one of another. */
export function createOpenReports({
  config: { keyPrefix, shards = [] },
  backend,
  now,
}: OpenResponsesOptions): StartReports {
  const names = nameShardDocuments(keyPrefix)
  const own = formatLayout(shards)
  let reportedAtMs = Number.NEGATIVE_INFINITY

  async function report(): Promise<void> {
    const nowMs = now()
    // A clock that was set back must not keep it silent.
    if (Math.abs(nowMs - reportedAtMs) < OPEN_REPORT_MS / 2) return
    reportedAtMs = nowMs
    const { text } = (await (await backend.documents(names.layout)).read()) ?? NO_DOCUMENT
    const isMoving = text !== '' && Object.values(JSON.parse(text)).some((state) => state !== '')
    if (!isMoving || text === own) return
    const documents = await backend.documents(names.open)
    const { version } = (await documents.read()) ?? NO_DOCUMENT
    // In a conflict, another isolate has just said the same.
    await documents.write({ text: '{}', expectedVersion: version, actor: '', comment: '', kept: 1 })
  }

  return function startReports({ waitUntil, timers = globalThis as Timers }) {
    const reports = timers.setInterval(() => waitUntil(report()), OPEN_REPORT_MS)
    return () => timers.clearInterval(reports)
  }
}
