/**
 * Writes metrics as Prometheus reads them, in OpenMetrics 1.0:
 * https://github.com/prometheus/OpenMetrics/blob/v1.0.0/specification/OpenMetrics.md
 */

/** §"Content Type" */
export const OPEN_METRICS_TYPE = 'application/openmetrics-text; version=1.0.0; charset=utf-8'

export type Labels = Readonly<Record<string, string>>

export interface Family {
  /** Without the suffix that its kind adds to samples. Ends with the unit, if there is one. */
  readonly name: string
  readonly help: string
  readonly unit?: 'seconds'
  readonly kind: 'counter' | 'histogram' | 'info'
  readonly samples: readonly (readonly [suffix: string, labels: Labels, value: number])[]
}

export function formatOpenMetrics(families: readonly Family[]): string {
  return `${families.map(formatFamily).join('')}# EOF\n`
}

/** @param counts one without labels, or each with its labels */
export function createCounter(
  name: string,
  help: string,
  counts: number | readonly (readonly [Labels, number])[],
): Family {
  const samples = typeof counts === 'number' ? [[{}, counts] as const] : counts
  return { name, help, kind: 'counter', samples: samples.map(([labels, value]) => ['_total', labels, value]) }
}

export function createInfo(name: string, help: string, labels: Labels): Family {
  return { name, help, kind: 'info', samples: [['_info', labels, 1]] }
}

/** @param boundsMs upper bounds of all buckets but the last, which has none; inclusive, ascending */
export function createHistogram(
  name: string,
  help: string,
  boundsMs: readonly number[],
  { counts, sumMs }: { readonly counts: readonly number[]; readonly sumMs: number },
): Family {
  let below = 0
  const buckets = counts.map((count, index) => {
    below += count
    const bound = boundsMs[index]
    return ['_bucket', { le: bound === undefined ? '+Inf' : formatBound(bound / 1000) }, below] as const
  })
  const sums = [['_sum', {}, sumMs / 1000] as const, ['_count', {}, below] as const]
  return { name, help, unit: 'seconds', kind: 'histogram', samples: [...buckets, ...sums] }
}

function formatFamily({ name, help, unit, kind, samples }: Family): string {
  const lines = [
    `# TYPE ${name} ${kind}`,
    ...(unit ? [`# UNIT ${name} ${unit}`] : []),
    `# HELP ${name} ${escapeText(help)}`,
    ...samples.map(([suffix, labels, value]) => `${name}${suffix}${formatLabels(labels)} ${value}`),
  ]
  return `${lines.join('\n')}\n`
}

function formatLabels(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escapeText(value)}"`)
  return pairs.length > 0 ? `{${pairs.join(',')}}` : ''
}

/** §"Escaping": in label values and help alike. */
function escapeText(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
}

/** §"Considerations: Canonical Numbers": a bound always has a fraction, so that it is one text everywhere. */
function formatBound(bound: number): string {
  return Number.isInteger(bound) ? bound.toFixed(1) : String(bound)
}
