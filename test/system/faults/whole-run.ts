import type { Outcome } from './fault.ts'
import { residentMiB } from './memory.ts'
import type { Site } from './site.ts'

/**
 * How far a process may grow from after its warm-up to the end of all scenarios. What JavaScript keeps has a limit of
 * its own; the rest settles at about 300 MiB more after some 10,000 requests.
 */
const MAX_GROWTH_MIB = 400

/** What is promised of all scenarios together. */
export const WHOLE_RUN = {
  fault: 'all of these together',
  promised: `memory flat (heap of 64 MiB; a process grows by ${MAX_GROWTH_MIB} MiB at most); no unhandled rejection in the runner`,
}

/** Watches a site that has warmed up. @returns a function to be called when all has been run */
export async function watchWholeRun({ points }: Site): Promise<() => Promise<Outcome>> {
  const startMiB = await residentMiB(points)
  const rejections: string[] = []
  const note = (reason: unknown) => rejections.push(`unhandled rejection in the runner: ${reason}`)
  process.on('unhandledRejection', note)
  return async () => {
    process.off('unhandledRejection', note)
    const endMiB = await residentMiB(points)
    const growth = endMiB.map((mib, index) => mib - (startMiB[index] ?? 0))
    const much = growth.filter((mib) => mib > MAX_GROWTH_MIB)
    return {
      observed: `from ${startMiB.map((mib) => mib.toFixed()).join(', ')} to ${endMiB.map((mib) => mib.toFixed()).join(', ')} MiB`,
      requests: 0,
      errors: 0,
      differences: [...rejections, ...much.map((mib) => `a process grew by ${mib.toFixed()} MiB`)],
    }
  }
}
