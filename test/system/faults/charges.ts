import { createDigest } from '../../../src/core/runtime/digest.ts'
import { pollUntil } from '../kit/poll.ts'
import { readUnitsAdmitted } from '../kit/streams.ts'
import { type Path, PLANTED } from './callers.ts'
import type { Length } from './fault.ts'
import type { Site } from './site.ts'
import type { Sample } from './traffic.ts'

const COUNTED = ['local', 'open', 'closed'] satisfies Path[]

/** The charges of a caller in the store, and those that the caller knows of. */
export interface Account {
  /** Units that its stream says were ever admitted. */
  readonly charged: number
  /** Requests that were admitted with no mark: by the store. */
  readonly shared: number
  /** Charges of which nobody may know. */
  readonly doubtful: number
}

export async function readAccounts(
  { redis, keyPrefix }: Site,
  samples: readonly Sample[],
  { storeTimeoutMs }: Pick<Length, 'storeTimeoutMs'>,
): Promise<Account[]> {
  const digest = createDigest(PLANTED.identitySecret)
  const callers = Map.groupBy(
    samples.filter(({ path }) => (COUNTED as Path[]).includes(path)),
    ({ caller }) => caller,
  )
  return Promise.all(
    [...callers].map(async ([caller, own]) => {
      const identity = digest(['token', caller])
      const key = `${keyPrefix}:${own[0]?.path}:w:{${identity}}`
      return {
        charged: await readUnitsAdmitted((command) => redis.client.sendCommand([...command]), key),
        shared: own.filter(({ status, degraded }) => status === 200 && degraded === undefined).length,
        doubtful: own.reduce((sum, sample) => sum + countDoubtfulCharges(sample, storeTimeoutMs), 0),
      }
    }),
  )
}

/** A decision that came too late is made again, once: both may come too late, each after the deadline at least. */
function countLateDecisions({ startMs, decidedMs }: Sample, storeTimeoutMs: number): number {
  return Math.min(Math.floor((decidedMs - startMs) / storeTimeoutMs), 2)
}

/** What is decided without the store may have been charged by it, too. */
function countDoubtfulCharges(sample: Sample, storeTimeoutMs: number): number {
  return Math.max(countLateDecisions(sample, storeTimeoutMs), sample.degraded === undefined ? 0 : 1)
}

/**
 * Asserts that charges of which nobody knows are as few as promised: one at most for each call that got no answer in time,
 * or none that could be read.
 * @param spoiled calls that ran and whose answers were altered or cut
 */
export function checkAccounts(
  accounts: readonly Account[],
  samples: readonly Sample[],
  { spoiled, storeTimeoutMs }: { readonly spoiled: number; readonly storeTimeoutMs: number },
): string[] {
  const late = samples.reduce((sum, sample) => sum + countLateDecisions(sample, 0.9 * storeTimeoutMs), 0)
  const unseen = countUnseenCharges(accounts)
  const silent = accounts.filter(({ charged, shared }) => charged < shared)
  const twice = accounts.filter(({ charged, shared, doubtful }) => charged - shared > doubtful)
  return [
    ...(unseen > late + spoiled
      ? [`${unseen} charges nobody knows of, of ${late} late answers and ${spoiled} spoiled ones`]
      : []),
    ...(silent.length > 0 ? [`${silent.length} callers were admitted without a charge or a mark`] : []),
    ...(twice.length > 0 ? [`${twice.length} callers were charged more than once for a request`] : []),
  ]
}

export function countUnseenCharges(accounts: readonly Account[]): number {
  return accounts.reduce((sum, { charged, shared }) => sum + Math.max(0, charged - shared), 0)
}

/** Waits until no slot of a `concurrency` policy is taken any more; none is overdue. @returns a line if some still are */
export async function listTakenSlots(
  { redis, keyPrefix }: Pick<Site, 'redis' | 'keyPrefix'>,
  policy: string,
  times: { readonly withinMs: number; readonly everyMs: number },
): Promise<string[]> {
  const count = async () => {
    const keys = await redis.client.keys(`${keyPrefix}:${policy}:c:*`)
    const taken = await Promise.all(keys.map((key) => redis.client.zCount(key, '(0', '+inf')))
    return taken.reduce((sum, count) => sum + count, 0)
  }
  const left = await pollUntil(times, count, (slots) => slots === 0)
  return left === 0 ? [] : [`${left} slots still taken after ${times.withinMs} ms`]
}
