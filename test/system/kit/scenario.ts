/** A load scenario: what it starts, warms, sends, reads and judges. One runner serves its short and its long form. */
import { setTimeout as wait } from 'node:timers/promises'
import type { Bundle } from '../../support/build-bundle.ts'
import type { Part } from '../../support/parts.ts'

/** Sizes and choices. The command takes an option for each. */
export type Options = Readonly<Record<string, string | number | boolean>>

/** What every scenario is given. */
export interface Run {
  readonly bundle: Bundle
  readonly seed: number
  /** Aborted when the time is up: nothing more is sent then, and what was seen is judged. */
  readonly signal: AbortSignal
  /** Requests that were answered so far. */
  readonly progress: { answered: number }
}

export interface Verdict {
  /** What is not as it must be, a line each. */
  readonly wrong: readonly string[]
  /** What never happened, a line each: without it, nothing is shown. */
  readonly missing: readonly string[]
}

interface Steps<O extends Options, Site extends Part, Seen, Found> {
  /** Of the command: each is run. */
  readonly long: readonly O[]
  /** Minutes after which the command sends nothing more. */
  readonly maxMinutes: number
  /** Whether there is anything of this to run; default: yes. */
  isMeant?(options: O): boolean
  start(options: O, run: Run): Promise<Site>
  /** Resolves when what is only so at the start is over. */
  warm?(site: Site, options: O, run: Run): Promise<unknown>
  load(site: Site, options: O, run: Run): Promise<Seen>
  /** Reads what the other side says of what was sent. */
  read(site: Site, seen: Seen, options: O, run: Run): Promise<Found> | Found
  judge(found: Found, options: O): Verdict
  /** What was seen, for people. */
  format(found: Found, options: O): string
}

export interface Judged extends Verdict {
  readonly shown: string
}

export interface Scenario<O extends Options = Options> {
  readonly long: readonly O[]
  readonly maxMinutes: number
  isMeant(options: O): boolean
  run(options: O, run: Run): Promise<Judged>
}

/** @returns the scenario, which starts all of its parts in each run, and ends them */
export function defineScenario<O extends Options, Site extends Part, Seen, Found>(
  steps: Steps<O, Site, Seen, Found>,
): Scenario<O> {
  const { long, maxMinutes } = steps
  return {
    long,
    maxMinutes,
    isMeant: (options) => steps.isMeant?.(options) ?? true,
    async run(options, run) {
      const site = await steps.start(options, run)
      try {
        await steps.warm?.(site, options, run)
        const found = await steps.read(site, await steps.load(site, options, run), options, run)
        return { ...steps.judge(found, options), shown: steps.format(found, options) }
      } finally {
        await site.stop()
      }
    },
  }
}

/** Works time and again, until it is over. */
export async function repeat(
  signal: AbortSignal,
  everyMs: number,
  work: (times: number) => Promise<unknown>,
): Promise<void> {
  for (let times = 0; ; times++) {
    await wait(everyMs, undefined, { signal }).catch(() => {})
    if (signal.aborted) return
    await work(times)
  }
}
