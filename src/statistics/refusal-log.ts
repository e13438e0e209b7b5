import type { Observed, Observer } from '../http/observer.ts'
import type { CallContext } from '../runtime/call-context.ts'
import type { Log } from '../runtime/log.ts'
import { EVERYWHERE } from './count-names.ts'
import { countryOf } from './country.ts'
import type { LabelReader } from './label.ts'
import { refusingTiers } from './outcome-of.ts'
import { refusedCallers } from './refused-callers.ts'

export interface RefusalLogOptions {
  /** Of the refusals that are logged, above 0 and at most 1. */
  readonly share: number
  /** Left out: callers have no names that people know. */
  readonly readLabel?: LabelReader | undefined
  readonly log: Log
  /** From 0 to below 1. */
  readonly random: () => number
}

/** Logs a sample of the refusals, one line each: by whom, by what and whom, but nothing that identifies a caller elsewhere. */
export class RefusalLog implements Observer {
  readonly #options: RefusalLogOptions

  constructor(options: RefusalLogOptions) {
    this.#options = options
  }

  decided(observed: Observed, context: Pick<CallContext, 'waitUntil'>): void {
    const { share, random, readLabel } = this.#options
    if (observed.verdict.kind === 'admitted' || random() >= share) return
    const label = readLabel?.(observed.request, context)
    if (label instanceof Promise) context.waitUntil(label.then((text) => this.#write(observed, text)))
    else this.#write(observed, label)
  }

  #write(observed: Observed, label: string | undefined): void {
    const { log } = this.#options
    const { verdict, trace, request } = observed
    const callers = refusedCallers(observed)
    const country = countryOf(request)
    log('info', {
      event: 'refused',
      kind: verdict.kind,
      policies: [...new Set(trace.matches.map(({ policy }) => policy.name))],
      routes: [...new Set(trace.matches.map(({ route }) => route ?? EVERYWHERE))],
      tiers: refusingTiers(verdict).map(({ name }) => name),
      callers: Object.fromEntries(callers.map(({ policy, digest }) => [policy, digest])),
      ...('retryAfterMs' in verdict && { retryAfterMs: verdict.retryAfterMs }),
      ...(verdict.degraded !== undefined && { degraded: verdict.degraded }),
      ...(label !== undefined && { label }),
      ...(country !== undefined && { country }),
    })
  }

  answered(): void {}

  undecided(): void {}
}
