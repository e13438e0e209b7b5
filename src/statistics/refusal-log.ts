import type { Log } from '../decide/log.ts'
import type { Observed, Observer } from '../http/observer.ts'
import { EVERYWHERE } from './count-names.ts'
import { countryOf } from './country.ts'
import { refusingTiers } from './outcome-of.ts'
import { labelOf, refusedCallers } from './refused-callers.ts'

export interface RefusalLogOptions {
  /** Of the refusals that are logged, above 0 and at most 1. */
  readonly share: number
  /** Header by whose value people know callers. */
  readonly labelHeader: string | undefined
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

  decided(observed: Observed): void {
    const { share, random, log, labelHeader } = this.#options
    const { verdict, findings, request } = observed
    if (verdict.kind === 'admitted' || random() >= share) return
    const callers = refusedCallers(observed)
    const label = labelOf(request, labelHeader)
    const country = countryOf(request)
    log('info', {
      event: 'refused',
      kind: verdict.kind,
      policies: findings.matches.map(({ policy }) => policy.name),
      routes: findings.matches.map(({ route }) => route ?? EVERYWHERE),
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
