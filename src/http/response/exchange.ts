/** Follows a request to its response: observers, and the consequences of the head of the response. */
import {
  type CostReading,
  type CostTerm,
  createReading,
  createUntold,
  isMeasure,
  type ReadCost,
} from '../../core/model/cost.ts'
import type { ResponseHead } from '../../core/model/policy.ts'
import { logFailure } from '../../core/model/store.ts'
import type { Admitted, ResponseCost, SlotHold, Verdict } from '../../core/model/verdict.ts'
import { type CallContext, Deadlines, type Timers } from '../../core/runtime/call-context.ts'
import type { Log } from '../../core/runtime/log.ts'
import type { UpstreamHealth } from '../../core/shedding/upstream-health.ts'
import { isKnownAtEnd } from '../request/charge-builder.ts'
import { readCallerAddress } from '../request/identity/address.ts'
import type { Exchange, ReceivedRequest } from '../request/received-request.ts'
import type { DecisionTrace } from '../request/request-limiter.ts'

/** Its signal is aborted when the client disconnects. */
export type AbortableRequest = ReceivedRequest & Pick<Request, 'signal'>

export interface Observed {
  readonly request: ReceivedRequest
  readonly verdict: Verdict
  readonly trace: DecisionTrace
}

/** Observes each request as it is handled. Methods must be quick, wait for nothing and not throw. */
export interface Observer {
  /** Called before the response is made, because the client may disconnect meanwhile. */
  onDecided(observed: Observed, context: Pick<CallContext, 'waitUntil'>): void
  onAnswered(observed: Observed, status: number, context: Pick<CallContext, 'waitUntil'>): void
  /** Called if the request cannot be read, or if handling it has failed. */
  onUndecided(outcome: 'bad_request' | 'failed', context: Pick<CallContext, 'waitUntil'>): void
}

export type ResponseFields = Pick<Headers, 'get' | 'has' | 'set' | 'append'>

/** A verdict after the head of the response. */
export interface Answered extends Admitted {
  /** To be settled when the response has ended, and before slots are released. */
  readonly cost?: ResponseCost
  /** To be called when all is charged and released. */
  readonly close?: () => void
}

/** RFC 9110 §15.6.5 */
const GATEWAY_TIMEOUT = 504

/**
 * Records that an admitted request goes to its handler.
 * @returns a function to call with the head of the response, or without it if there will be none, or the client has gone
 * before it: a head that comes later still counts. It returns the verdict after the response, including what that was
 * charged. `mayHaveRun`: there will be no head, though the request has been handled.
 */
export function trackResponse(
  { request, context }: Exchange,
  verdict: Admitted,
  { health, ipv6Prefix }: { readonly health: UpstreamHealth | undefined; readonly ipv6Prefix: number },
): (head?: ResponseHead, mayHaveRun?: boolean) => Answered {
  const { hold, settlement } = verdict
  let end = health?.begin(readCallerAddress(request, ipv6Prefix))
  let charged: Answered | undefined
  return (head, mayHaveRun = false) => {
    end?.(head !== undefined && signalsOverload(head, request))
    end = undefined
    if (charged) return charged
    if (!head && !mayHaveRun) return verdict
    const own = head && !isSynthetic(head) ? head : undefined
    const cost = settlement?.readHead(own, request.context, mayHaveRun || head?.status === GATEWAY_TIMEOUT)
    if (!cost) return verdict
    const { limits } = cost
    charged = { ...verdict, limits }
    if (isKnownAtEnd(cost.terms)) charged = { ...charged, cost }
    else {
      const settled = cost.settle(own ? (term) => readCostHeader(term, own.headers) : readNothing)
      context.waitUntil(settled)
      if (hold) charged = { ...charged, hold: { ...hold, release: () => releaseAfter(settled, hold) } }
    }
    return charged
  }
}

/** Renews the slots of a request until they are released: a client that reads slowly must not get more than there are. */
export function keepSlots(
  verdict: Admitted,
  { waitUntil, timers = globalThis }: Pick<CallContext, 'waitUntil' | 'timers'>,
): Admitted {
  const { hold } = verdict
  if (!hold) return verdict
  const renewal = timers.setInterval(() => waitUntil(hold.renew()), hold.renewEveryMs)
  const release = () => {
    timers.clearInterval(renewal)
    return hold.release()
  }
  return { ...verdict, hold: { ...hold, release } }
}

/** A request keeps its slots until it is charged, so that no more can be used beyond a limit than slots allow. */
export async function releaseAfter(settled: Promise<void> | undefined, hold: SlotHold): Promise<void> {
  await settled?.catch(() => {})
  await hold.release()
}

/** Reads the cost of what has no response. */
export const readNothing: ReadCost = (term) => (isMeasure(term) ? createReading(0) : createUntold('no_response'))

/** It is told by an integer from 0. */
export function readCostHeader(term: CostTerm, headers: Pick<Headers, 'get'>): CostReading {
  const text = term.kind === 'header' ? headers.get(term.name)?.trim() : undefined
  return text && /^\d+$/.test(text) ? createReading(Number(text)) : createUntold('no_header')
}

/**
 * Responses that signal an overload of the upstream, including the proxy's own. A failed or late one does so only for a
 * request without a body: a client may have aborted its body, or withheld it. A 429 is about one caller only.
 */
export function signalsOverload({ status, headers }: ResponseHead, { body }: Pick<ReceivedRequest, 'body'>): boolean {
  if (status === 502 || status === 504) return body === null
  return status === 503 && headers.has('Retry-After')
}

const SYNTHETIC = new WeakSet<object>()

/** Marks a response that the gateway made itself in place of a missing one. It is no failure of the request. */
export function markSynthetic(response: Response): Response {
  SYNTHETIC.add(response)
  return response
}

export function isSynthetic(head: object): boolean {
  return SYNTHETIC.has(head)
}

export function createRequestContext(
  keepAlive: (work: Promise<unknown>) => void,
  log: Log,
  request?: Pick<Request, 'signal'>,
  timers?: Timers,
): CallContext {
  return {
    deadlines: new Deadlines(timers),
    timers,
    isClientGone: () => request?.signal.aborted === true,
    waitUntil: (work) => keepAlive(logFailure(work, log)),
  }
}
