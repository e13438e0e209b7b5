/** Reads admissions from the streams of a Redis: one entry each, with its time and the sum of units up to it. */
import type { Admission } from '../../support/windows.ts'

/** Sends a command to one Redis. */
export type SendCommand = (command: readonly string[]) => Promise<unknown>

type Entry = readonly [id: string, fields: readonly string[]]

/** Everything that was admitted under a key and is still stored. */
export async function readAdmissions(send: SendCommand, key: string): Promise<(Admission & { readonly id: string })[]> {
  const entries = (await send(['XRANGE', key, '-', '+'])) as readonly Entry[]
  return entries.map(([id, [, cost]]) => ({ id, ms: Number(id.split('-')[0]), cost: Number(cost) }))
}

/** Units that were ever admitted under a key. */
export async function readUnitsAdmitted(send: SendCommand, key: string): Promise<number> {
  const [newest] = (await send(['XREVRANGE', key, '+', '-', 'COUNT', '1'])) as readonly Entry[]
  return Number(newest?.[0].split('-')[1] ?? 0)
}
