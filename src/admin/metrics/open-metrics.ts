/**
 * Writes OpenMetrics text, version 1.0.0.
 * https://github.com/prometheus/OpenMetrics/blob/v1.0.0/specification/OpenMetrics.md
 */

/** What the text is, as §"Content Type" has it. */
export const OPEN_METRICS_TYPE = 'application/openmetrics-text; version=1.0.0; charset=utf-8'

export type Labels = Readonly<Record<string, string>>

/** Lines of one family: samples of one name, each with other labels. */
export interface Family {
  /** Without the suffix that its kind adds to samples. Ends with the unit, if there is one. */
  readonly name: string
  readonly help: string
  readonly unit?: 'seconds'
  readonly kind: 'counter' | 'gauge' | 'histogram' | 'info'
  readonly samples: readonly Sample[]
}

export interface Sample {
  readonly suffix: '' | '_total' | '_info' | '_bucket' | '_sum' | '_count'
  readonly labels: Labels
  readonly value: number
}

export function openMetrics(families: readonly Family[]): string {
  return `${families.map(familyText).join('')}# EOF\n`
}

export function counter(
  name: string,
  help: string,
  samples: readonly (readonly [labels: Labels, value: number])[],
): Family {
  return {
    name,
    help,
    kind: 'counter',
    samples: samples.map(([labels, value]) => ({ suffix: '_total', labels, value })),
  }
}

export function info(name: string, help: string, labels: Labels): Family {
  return { name, help, kind: 'info', samples: [{ suffix: '_info', labels, value: 1 }] }
}

/**
 * @param name ends with `_seconds`
 * @param boundsMs upper bounds of all buckets but the last, which has none; inclusive, ascending
 * @param counts of each bucket by itself
 */
export function histogramOfSeconds(
  name: string,
  help: string,
  boundsMs: readonly number[],
  counts: readonly number[],
  sumMs: number,
): Family {
  let below = 0
  const buckets = counts.map((count, index): Sample => {
    below += count
    const bound = boundsMs[index]
    return { suffix: '_bucket', labels: { le: bound === undefined ? '+Inf' : canonical(bound / 1000) }, value: below }
  })
  const sums: Sample[] = [
    { suffix: '_sum', labels: {}, value: sumMs / 1000 },
    { suffix: '_count', labels: {}, value: below },
  ]
  return { name, help, unit: 'seconds', kind: 'histogram', samples: [...buckets, ...sums] }
}

function familyText({ name, help, unit, kind, samples }: Family): string {
  const lines = [
    `# TYPE ${name} ${kind}`,
    ...(unit ? [`# UNIT ${name} ${unit}`] : []),
    `# HELP ${name} ${escaped(help)}`,
  ]
  for (const { suffix, labels, value } of samples) lines.push(`${name}${suffix}${labelText(labels)} ${value}`)
  return `${lines.join('\n')}\n`
}

function labelText(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escaped(value)}"`)
  return pairs.length > 0 ? `{${pairs.join(',')}}` : ''
}

/** §"Escaping": in label values and help alike. */
function escaped(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
}

/** §"Considerations: Canonical Numbers": a bound always has a fraction, so that it is one text everywhere. */
function canonical(bound: number): string {
  return Number.isInteger(bound) ? bound.toFixed(1) : String(bound)
}
