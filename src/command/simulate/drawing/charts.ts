import { barX, gridX, gridY, rectY, ruleX, ruleY, stackY, text } from '@observablehq/plot'
import { nameOf, number, type Result } from '../report.ts'
import { drawPlot, type Plotted } from './plot.ts'
import { COLOURS } from './style.ts'

/** A drawing, and what stands above it. */
export interface Chart extends Plotted {
  readonly title: string
}

const KINDS = ['admitted', 'refused'] as const
/** Drawn one below the other; the tables have all of them. */
const MOST_POLICIES = 8
const BAR_HEIGHT = 26
const MOST_NAME_CHARACTERS = 40

/** How the variants compare; nothing if there is only one. */
export function chartsOfAll(results: readonly Result[]): readonly Chart[] {
  if (results.length < 2) return []
  const names = results.map((result, index) => `${index + 1}. ${shortened(nameOf(result).replace('RATE_LIMITS ', ''))}`)
  const verdicts = results.flatMap((result, index) =>
    KINDS.map((kind) => ({ name: names[index], kind, count: result[kind] })),
  )
  const costs = results.map(({ calls, dollars }, index) => ({ name: names[index], count: calls, dollars }))
  const height = 60 + results.length * BAR_HEIGHT
  const common = { height, marginLeft: 260, y: { domain: names, label: null }, color: COLOUR_SCALE }
  return [
    {
      title: 'Admitted and refused, side by side',
      ...drawPlot('Bars of admitted and refused requests for each variant', {
        ...common,
        x: { label: 'requests' },
        marks: [gridX(), barX(verdicts, { x: 'count', y: 'name', fill: 'kind', title: titleOf }), ruleX([0])],
      }),
    },
    {
      title: 'Calls of Redis, side by side',
      ...drawPlot('Bars of calls of Redis for each variant', {
        ...common,
        marginRight: 90,
        x: { label: 'calls' },
        marks: [
          gridX(),
          barX(costs, { x: 'count', y: 'name', fill: () => 'admitted' }),
          text(costs, {
            x: 'count',
            y: 'name',
            text: ({ dollars }: { dollars: number }) => `$${dollars.toFixed(2)}`,
            textAnchor: 'start',
            dx: 4,
          }),
          ruleX([0]),
        ],
      }),
    },
  ]
}

/** What became of requests over time, by policy, and whom it hit. */
export function chartsOf(result: Result): readonly Chart[] {
  return [...overTime(result), ...refusedMost(result)]
}

function overTime({ buckets, bucketMs, policies }: Result): readonly Chart[] {
  if (buckets.length === 0) return []
  const shown = policies
    .map(({ policy, requests, refused }, index) => ({ policy, requests, refused, index }))
    .filter(({ requests }) => requests > 0)
    .toSorted((a, b) => b.refused - a.refused)
    .slice(0, MOST_POLICIES)
  // One policy counts what all requests are, and says so twice.
  const rows = shown.length === 1 ? shown : [{ policy: 'all requests', index: undefined }, ...shown]
  const data = rows.flatMap(({ policy, index }) =>
    buckets.flatMap((bucket) =>
      KINDS.map((kind) => ({
        row: policy,
        from: new Date(bucket.from),
        to: new Date(Date.parse(bucket.from) + bucketMs),
        kind,
        count: (index === undefined ? bucket : bucket.policies[index])?.[kind] ?? 0,
      })),
    ),
  )
  return [
    {
      title: 'Over time',
      ...drawPlot(`Admitted and refused requests over time, of ${rows.map(({ policy }) => policy).join(', ')}`, {
        height: 60 + rows.length * 110,
        marginLeft: 60,
        marginRight: 130,
        x: { type: 'utc', label: 'UTC' },
        y: { label: 'requests' },
        fy: { domain: rows.map(({ policy }) => policy), label: null },
        color: COLOUR_SCALE,
        marks: [
          gridY(),
          rectY(
            data.filter(({ count }) => count > 0),
            stackY({ x1: 'from', x2: 'to', y: 'count', fy: 'row', fill: 'kind', title: titleOf }),
          ),
          ruleY([0]),
        ],
      }),
    },
  ]
}

function refusedMost({ callers }: Result): readonly Chart[] {
  if (callers.length === 0) return []
  const data = callers.map(({ policy, digest, caller, refused }, index) => ({
    name: `${index + 1}. ${policy} ${shortened(caller ?? digest)}`,
    kind: 'refused',
    count: refused,
  }))
  return [
    {
      title: 'Refused most',
      ...drawPlot('Bars of the refusals of the callers refused most', {
        height: 60 + data.length * BAR_HEIGHT,
        marginLeft: 310,
        x: { label: 'refused' },
        y: { domain: data.map(({ name }) => name), label: null },
        color: COLOUR_SCALE,
        marks: [gridX(), barX(data, { x: 'count', y: 'name', fill: 'kind', title: titleOf }), ruleX([0])],
      }),
    },
  ]
}

const COLOUR_SCALE = { domain: KINDS, range: KINDS.map((kind) => COLOURS[kind]) }

function titleOf({ count, kind }: { readonly count: number; readonly kind: string }): string {
  return `${number(count)} ${kind}`
}

function shortened(name: string): string {
  const plain = name.replace(/[\p{Cc}\p{Cs}]/gu, '\ufffd')
  return plain.length > MOST_NAME_CHARACTERS ? `${plain.slice(0, MOST_NAME_CHARACTERS - 1)}…` : plain
}
