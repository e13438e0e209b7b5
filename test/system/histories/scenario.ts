/** Records a history of calls under load to a real store that is disturbed, and checks it key by key. */
import { Engine } from '../../../src/core/engine/engine.ts'
import type { Charge } from '../../../src/core/model/charge.ts'
import { sleep } from '../../../src/core/runtime/sleep.ts'
import { drawInteger, seededRandom } from '../../../tools/seeded-random.ts'
import { callContext } from '../../support/call-context.ts'
import { createCharge, withPolicy } from '../../support/charges.ts'
import { checkHistory, type Verdict } from '../../support/linearizability.ts'
import { type Call, type Delivery, recordCalls, splitByKeys } from '../../support/recorded-store.ts'
import { defineScenario, repeat } from '../kit/scenario.ts'
import { formatTable } from '../kit/table.ts'
import { sendInLanes } from '../kit/traffic.ts'
import { OPEN_PLACE, PLACE_NAMES, type Place } from './places.ts'

interface Findings {
  readonly calls: readonly Call[]
  readonly verdicts: readonly Verdict[]
  /** Calls of the largest history. */
  readonly largest: number
  readonly checkedInMs: number
}

/** The search remembers every state: a history is bounded by spreading the requests over more keys. */
const REQUESTS_PER_KEY = 200
/** The engine repeats a decision that takes longer. */
const PATIENCE_MS = 30
const MAX_WAY_MS = 40
const MAX_PAUSE_MS = 4
const DISTURBED_EVERY_MS = 1_000

/** Of each answer, and of calls that overlap: with fewer, nothing was tested. */
const MIN_SEEN = 5
/** Share of histories with so many calls without an answer that not all orders can be tried. */
const MAX_UNDECIDED = 0.02

export const HISTORIES = defineScenario({
  long: PLACE_NAMES.map((store) => ({ store: store as string, requests: 50_000, lanes: 16 })),
  maxMinutes: 20,
  async start({ store }, { bundle, seed }) {
    const name = PLACE_NAMES.find((known) => known === store)
    if (name === undefined) throw new Error(`--store: ${PLACE_NAMES.join(', ')}`)
    const random = seededRandom(seed)
    return { ...(await OPEN_PLACE[name](random, bundle)), random }
  },

  async load({ random, ...place }, { requests, lanes }, run): Promise<readonly Call[]> {
    const groups = drawCharges(place, requests, random)
    const now = () => performance.timeOrigin + performance.now()
    const { store, calls } = recordCalls(place.store, { now, sleep, draw: () => drawDelivery(random) })
    const terms = { storeTimeoutMs: PATIENCE_MS, localShare: 1, repeats: 'none', hasBreaker: false } as const
    const engine = new Engine({ store, now: () => Date.now(), log: () => {}, ...terms })
    const ending = new AbortController()
    const disturbing = repeat(ending.signal, DISTURBED_EVERY_MS, async () => place.disturb?.())
    await sendInLanes({ requests, lanes, run }, async () => {
      await sleep(MAX_PAUSE_MS * random())
      const group = groups[drawInteger(random, 0, groups.length - 1)] as readonly Charge[]
      const charges = group.map((charge) => ({ ...charge, cost: drawInteger(random, 1, 2) }))
      const action = random() < 0.1 ? 'peek' : random() < 0.2 ? 'take-up-to' : 'take'
      await engine.decide(charges, callContext(), { action, permits: drawInteger(random, 1, 3) })
    })
    ending.abort()
    await disturbing
    return calls
  },

  read(_, calls): Findings {
    const startMs = performance.now()
    const histories = splitByKeys(calls)
    const verdicts = histories.map((history) => checkHistory(history))
    const largest = Math.max(...histories.map(({ length }) => length))
    return { calls, verdicts, largest, checkedInMs: performance.now() - startMs }
  },

  judge(findings, { store, requests }) {
    const undecided = listVerdicts(store, findings, 'undecided')
    // Of few histories, none.
    const isMuch = undecided.length > MAX_UNDECIDED * findings.verdicts.length
    const counts = { ...countByAnswer(findings.calls), overlapping: countOverlaps(findings.calls) }
    const isLittle = Math.min(...Object.values(counts)) < MIN_SEEN
    return {
      wrong: listVerdicts(store, findings, 'violated'),
      missing: [
        ...(isMuch ? undecided : []),
        ...(isLittle
          ? [`${store}: of ${requests} requests, fewer than ${MIN_SEEN} of some: ${JSON.stringify(counts)}`]
          : []),
      ],
    }
  },

  format: (findings, { store }) => formatFindings(store, findings),
})

/** Charges of one decision: pairs of keys if the store decides them in one step, of which some decisions are on one. */
function drawCharges(
  { algorithms, isWhole }: Pick<Place, 'algorithms' | 'isWhole'>,
  requests: number,
  random: () => number,
): Charge[][] {
  const count = Math.max(algorithms.length, Math.ceil(requests / REQUESTS_PER_KEY))
  const keys = Array.from({ length: count }, (_, index) => {
    const algorithm = algorithms[index % algorithms.length] as (typeof algorithms)[number]
    const limits = [{ limit: drawInteger(random, 10, 80), windowMs: drawInteger(random, 50, 1_000) }]
    const penalty = random() < 0.3 ? { penalty: { durationMs: drawInteger(random, 5, 200), after: 2 } } : {}
    return withPolicy(createCharge(algorithm, limits, penalty))
  })
  const pairs = keys.flatMap((key, index) => (isWhole && index % 4 === 1 ? [[keys[index - 1] as Charge, key]] : []))
  return [...keys.map((key) => [key]), ...pairs]
}

/** Most calls are left alone; some are late, so that others overtake them or they are repeated; few are lost. */
function drawDelivery(random: () => number): Delivery {
  const die = random()
  const wayMs = MAX_WAY_MS * random()
  if (die < 0.05) return { toMs: wayMs, backMs: 0 }
  if (die < 0.1) return { toMs: 0, backMs: wayMs }
  if (die < 0.102) return { toMs: 0, backMs: 0, loses: 'call' }
  if (die < 0.104) return { toMs: 0, backMs: 0, loses: 'answer' }
  return { toMs: 0, backMs: 0 }
}

/** Counts the calls that were unanswered when the next one to the same store began. */
function countOverlaps(calls: readonly Call[]): number {
  return calls.filter(({ startMs }, index) => index > 0 && (calls[index - 1] as Call).endMs > startMs).length
}

function countByAnswer(calls: readonly Call[]) {
  const granted = calls.filter(({ decision }) => decision && decision.granted > 0).length
  const refused = calls.filter(({ decision }) => decision?.granted === 0).length
  return { granted, refused, unanswered: calls.length - granted - refused }
}

/** @returns a line for each history of this kind */
function listVerdicts(place: string, { verdicts }: Findings, wanted: Exclude<Verdict['kind'], 'linearizable'>) {
  return verdicts.flatMap(({ kind, stuckAt }) => (kind === wanted ? [`${place}: ${kind} ${stuckAt}`] : []))
}

function formatFindings(place: string, findings: Findings): string {
  const { calls, verdicts, largest, checkedInMs } = findings
  const { granted, refused, unanswered } = countByAnswer(calls)
  return `${place}\n${formatTable([
    ['calls', calls.length, `${granted} granted, ${refused} refused, ${unanswered} without an answer`],
    ['overlapping the one before', countOverlaps(calls)],
    ['histories', verdicts.length, `the largest of ${largest} calls`],
    ['states visited', verdicts.reduce((sum, { visited }) => sum + visited, 0), `in ${checkedInMs.toFixed(0)} ms`],
    ['violated', listVerdicts(place, findings, 'violated').length],
    [
      'undecided',
      listVerdicts(place, findings, 'undecided').length,
      'too many orders, because of calls without an answer',
    ],
  ])}`
}
