import { expect, test } from 'vitest'
import type { Settings } from '../../../src/command/settings/settings.ts'
import type { LogEntry } from '../../../src/command/simulate/log-line.ts'
import { Simulation } from '../../../src/command/simulate/simulation.ts'
import { loadWorkerConfig } from '../../../src/command/worker-config.ts'
import { agree, type Decided } from './agree.ts'

const CONFIG = loadWorkerConfig({ variables: { RATE_LIMITS: '2/1s' } } as unknown as Settings)
const START_MS = Date.UTC(2026, 0, 1)
/** The third and the fifth are refused, the fifth a millisecond too early. */
const MOMENTS_MS = [0, 10, 998, 1_000.5, 1_009, 1_500]

/** What is really decided, but dated at the end of a span that begins and ends so far from the truth. */
async function decidedWithin(earlierMs: number, laterMs: number): Promise<Decided[]> {
  const simulation = new Simulation(CONFIG)
  const decided: Decided[] = []
  for (const momentMs of MOMENTS_MS) {
    const timeMs = START_MS + momentMs + 0.5
    const entry: LogEntry = {
      timeMs,
      method: 'GET',
      target: '/',
      ip: '198.18.0.1',
      token: 'a',
      headers: new Map(),
      status: undefined,
    }
    const fate = await simulation.replay(entry)
    const [earliestMs, latestMs] = fate === 'admitted' ? [timeMs, timeMs] : [timeMs + earlierMs, timeMs + laterMs]
    decided.push({ entry: { ...entry, timeMs: latestMs }, earliestMs, latestMs, fate })
  }
  return decided
}

test('agree() finds the moment of a refusal within all that the record allows', async () => {
  const decided = await decidedWithin(-12, 12)
  const { entries, moved } = await agree(CONFIG, decided, 5)
  expect(moved).toEqual([
    { index: 2, beyondMs: 0 },
    { index: 4, beyondMs: 0 },
  ])
  const simulation = new Simulation(CONFIG)
  for (const [index, entry] of entries.entries()) expect(await simulation.replay(entry)).toBe(decided[index]?.fate)
})

test('agree() takes what is outside of the record by no more than the tolerance', async () => {
  expect((await agree(CONFIG, await decidedWithin(4, 12), 5)).moved.map(({ beyondMs }) => beyondMs > 0)).toEqual([
    true,
    true,
  ])
  await expect(agree(CONFIG, await decidedWithin(12, 14), 5)).rejects.toThrow('no moment explains:')
})

test('agree() finds nothing for a verdict that is wrong', async () => {
  const decided = await decidedWithin(0, 0)
  decided[1] = { ...(decided[1] as Decided), fate: 'refused' }
  await expect(agree(CONFIG, decided, 5)).rejects.toThrow(
    /no moment explains:\n0 GET .*\n1 GET \/ a 198\.18\.0\.1: refused at/,
  )
})
