import type { Config } from '../../config/load-config.ts'
import { isUntold } from './logged-request.ts'
import { leftOut } from './simulation.ts'
import type { Isolate } from './virtual-decider.ts'

/** Where a simulation cannot do what the Worker does. @param isolate undefined: every request is asked for */
export function notesOf({ policies, isShedding, leases }: Config, isolate: Isolate | undefined): string[] {
  const notes: string[] = []
  for (const policy of policies) {
    const { name, by, settleHeader, tiers } = policy
    if (tiers.length === 0) continue
    const why = leftOut(policy)
    if (why !== undefined) notes.push(`policy "${name}" is left out: ${why}`)
    else if (by.some(isUntold)) notes.push(`policy "${name}" counts by what logs do not hold: all callers lack it here`)
    if (settleHeader !== undefined) notes.push(`policy "${name}": costs that responses tell are not known here`)
  }
  if (isShedding) notes.push('SHEDDING is left out: nobody knows how the API fared')
  if (leases && !isolate) notes.push(`LEASES are left out: --leases off --leases ${leases} shows what they change`)
  if (isolate) notes.push('calls are those of a single isolate that is answered at once: with several, there are more')
  return notes
}
