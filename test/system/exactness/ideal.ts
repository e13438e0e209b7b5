import type { Tier } from '../../support/windows.ts'
import { History } from './history.ts'
import type { Policies } from './policies.ts'
import type { Outcome } from './traffic.ts'

/** How many of these requests one limiter for all, which decides each as it is sent, would have admitted. */
export function admittedByOne(outcomes: readonly Outcome[], policies: Policies): number {
  const histories = new Map<string, History>()
  const historyOf = (name: string) => {
    const history = histories.get(name) ?? new History()
    histories.set(name, history)
    return history
  }
  const hasRoom = (history: History, tiers: readonly Tier[], atMs: number, cost: number) =>
    tiers.every(({ limit, windowMs }) => history.used(atMs - windowMs, atMs) + cost <= limit)

  let admitted = 0
  for (const { caller, team, cost, sentMs } of outcomes.toSorted((a, b) => a.sentMs - b.sentMs)) {
    const [own, shared] = [historyOf(`caller ${caller}`), historyOf(`team ${team}`)]
    if (!hasRoom(own, policies.caller, sentMs, cost) || !hasRoom(shared, policies.team, sentMs, 1)) continue
    own.add(sentMs, cost)
    shared.add(sentMs, 1)
    admitted++
  }
  return admitted
}
