/** Meters what a response has cost, from what is seen of it, and charges it. */
import {
  type CostTerm,
  createReading,
  createUntold,
  isMeasure,
  type ReadCost,
  type UntoldReason,
} from '../../core/model/cost.ts'
import type { ResponseHead } from '../../core/model/policy.ts'
import type { CallContext } from '../../core/runtime/call-context.ts'
import { type Answered, readCostHeader } from './exchange.ts'
import { createMemberReader } from './read-members.ts'

/** The rest of a body is read for so long for its cost when the client has gone. Workers allow no longer. */
export const MAX_READ_ON_MS = 30_000

/** Measured costs are charged in steps of this length. */
const STEP_MS = 5_000

/** RFC 9110 §15.3.7: a range of the body, which may cut a number off. */
const PARTIAL_CONTENT = 206
/** Bodies of other types may be what a client has written, such as a text that a model was made to say. */
const READABLE_TYPE = /^(?:\s*$|[^;]*(?:json|event-stream))/i

export interface Meter {
  /** The rest of the body may tell a cost. */
  readonly isExpecting: boolean
  /** Sees bytes of the body on their way to the client. */
  see(chunk: Uint8Array): void
  /** Counts bytes that tell no cost: those of messages. */
  count(kind: 'bytes' | 'bytes:request', bytes: number): void
  /** Reads what is known by now. Members may be told until the end. */
  readonly read: ReadCost
  /** Nothing more is seen. @param ending why, if the body has not ended */
  end(ending?: UntoldReason): Promise<void>
}

/** @param now milliseconds since the Unix epoch @param startMs when the request came */
export function createMeter(
  { status, headers }: ResponseHead,
  terms: readonly CostTerm[],
  now: () => number,
  startMs: number,
): Meter {
  const paths = terms.filter((term) => term.kind === 'json')
  const isOfType = READABLE_TYPE.test(headers.get('Content-Type') ?? '')
  const members =
    paths.length > 0 && isOfType && status !== PARTIAL_CONTENT
      ? createMemberReader(paths, headers.get('Content-Encoding'))
      : undefined
  const bytes = { bytes: 0, 'bytes:request': 0 }
  let ending: UntoldReason | undefined = 'broken'
  let endMs: number | undefined
  return {
    get isExpecting() {
      return members?.isOpen === true
    },
    see(chunk) {
      bytes.bytes += chunk.byteLength
      members?.see(chunk)
    },
    count(kind, more) {
      bytes[kind] += more
    },
    read(term) {
      switch (term.kind) {
        case 'header':
          return readCostHeader(term, headers)
        case 'ms':
          return createReading(Math.max(0, (endMs ?? now()) - startMs))
        case 'bytes':
        case 'bytes:request':
          return createReading(bytes[term.kind])
        case 'json': {
          if (!members) return createUntold(isOfType ? 'partial' : 'type')
          const reading = members.read(term, ending)
          return bytes.bytes === 0 && ending === undefined ? createUntold('no_body') : reading
        }
      }
    },
    async end(why) {
      endMs = now()
      await members?.end()
      ending = why
    },
  }
}

/**
 * Charges what is measured while a response lasts.
 * @returns settles the rest and then releases slots, so that no more is in flight than there are until all is charged;
 * `ending` says why the body has not ended, if so
 */
export function trackCharges(
  { cost, hold, close }: Pick<Answered, 'cost' | 'hold' | 'close'>,
  meter: Meter | undefined,
  { waitUntil, timers = globalThis }: Pick<CallContext, 'waitUntil' | 'timers'>,
): (ending?: UntoldReason) => Promise<void> {
  const isGrowing = cost?.terms.some(isMeasure) === true
  const steps = meter && isGrowing ? timers.setInterval(() => waitUntil(cost.advance(meter.read)), STEP_MS) : undefined
  return async function closeCharges(ending) {
    timers.clearInterval(steps)
    try {
      await meter?.end(ending)
      if (meter) await cost?.settle(meter.read)
    } finally {
      close?.()
      await hold?.release()
    }
  }
}
