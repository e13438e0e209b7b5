/** The examples of docs/observability.md, run as they stand with the packages that they are for. */
import { AsyncLocalStorage } from 'node:async_hooks'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type Context, type ContextManager, context, metrics, ROOT_CONTEXT, trace } from '@opentelemetry/api'
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics'
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'
import { afterAll, expect, test } from 'vitest'
import { limit, type ObservedRequest } from '../../src/fetch.ts'
import type { Limiter, ObservedDecision } from '../../src/index.ts'
import { type ObservedCall, throttle } from '../../src/outbound.ts'
import { DECIDE_TOKEN } from '../support/decisions.ts'
import { readPage } from '../support/markdown.ts'
import { startServing } from '../support/serving-process.ts'

const ROOT = join(import.meta.dirname, '../..')
const { code } = await readPage(join(ROOT, 'docs/observability.md'))

// Inside of the repository, so that the example finds what it has installed.
mkdirSync(join(ROOT, 'build'), { recursive: true })
const folder = await mkdtemp(join(ROOT, 'build/docs-observability-'))
afterAll(() => rmSync(folder, { recursive: true }))

/** As the SDK for Node has it. */
class LocalContexts implements ContextManager {
  readonly #contexts = new AsyncLocalStorage<Context>()

  active(): Context {
    return this.#contexts.getStore() ?? ROOT_CONTEXT
  }

  with<A extends unknown[], F extends (...args: A) => ReturnType<F>>(
    active: Context,
    run: F,
    thisArg?: ThisParameterType<F>,
    ...args: A
  ): ReturnType<F> {
    return this.#contexts.run(active, () => run.apply(thisArg, args))
  }

  bind<T>(_active: Context, target: T): T {
    return target
  }

  enable(): this {
    return this
  }

  disable(): this {
    return this
  }
}

const measured = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE)
const reader = new PeriodicExportingMetricReader({ exporter: measured, exportIntervalMillis: 3_600_000 })
const meters = new MeterProvider({ readers: [reader] })
const traced = new InMemorySpanExporter()
context.setGlobalContextManager(new LocalContexts())
metrics.setGlobalMeterProvider(meters)
trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(traced)] }))
afterAll(() => meters.shutdown())

interface Recording {
  default(decision: ObservedDecision | ObservedRequest | ObservedCall): void
}

/** Writes an example that holds `part` into a file. @returns its address */
function writeExample(name: string, part: string): string {
  const example = code.find(({ text }) => text.includes(part))?.text ?? ''
  const file = join(folder, name)
  // The package is what it is made of.
  writeFileSync(file, example.replace("from 'sluice'", `from '${pathToFileURL(join(ROOT, 'src/index.ts'))}'`))
  return pathToFileURL(file).href
}

// Node takes files named .js as modules, as the package of this repository says.
const recording = writeExample('record-decision.js', '@opentelemetry/api')
const { default: recordDecision } = (await import(recording)) as Recording
const { limiter } = (await import(writeExample('limiter.js', 'createLimiter'))) as { readonly limiter: Limiter }

/** Data points of a metric so far, by their attributes. */
async function readPoints(name: string) {
  await reader.forceFlush()
  const found = measured
    .getMetrics()
    .at(-1)
    ?.scopeMetrics.flatMap((scope) => scope.metrics)
  const points = found?.find(({ descriptor }) => descriptor.name === name)?.dataPoints ?? []
  return points.map(({ attributes, value }) => [attributes, value] as const)
}

test('decisions of the library become a histogram, a counter, and spans of the active one', async () => {
  const parent = trace.getTracer('program').startSpan('request')
  await context.with(trace.setSpan(context.active(), parent), async () => {
    for (let i = 0; i < 3; i++) await limiter.take('alice')
  })
  const by = (outcome: string) => ({ 'sluice.outcome': outcome, 'sluice.decided_by': 'memory' })
  expect(await readPoints('sluice.decision.duration')).toMatchObject([
    [by('granted'), { count: 2 }],
    [by('refused'), { count: 1 }],
  ])
  expect(await readPoints('sluice.limit.refusals')).toEqual([[{ 'sluice.limit': 'default-1s' }, 1]])
  const spans = traced.getFinishedSpans()
  const { spanId } = parent.spanContext()
  expect(spans.map(({ name, parentSpanContext }) => [name, parentSpanContext?.spanId])).toEqual(
    Array.from({ length: 3 }, () => ['sluice.decision', spanId]),
  )
  expect(spans.at(-1)?.attributes).toEqual({
    ...by('refused'),
    'sluice.policies': ['default'],
    'sluice.retry_after_ms': expect.any(Number),
  })
  expect(JSON.stringify(spans.map(({ attributes }) => attributes))).not.toContain('alice')
})

test('the same function takes what the middleware and outbound calls report', async () => {
  traced.reset()
  const options = { trustProxy: () => '192.0.2.1', log: () => {}, onDecision: recordDecision }
  const handler = limit(() => new Response(), { limits: '1/1m', by: 'ip', ...options })
  for (let i = 0; i < 2; i++) await handler(new Request('https://api.example.com/'))
  await throttle(() => {}, { limits: '1/1s', onDecision: recordDecision })()
  expect(traced.getFinishedSpans().map(({ attributes }) => attributes['sluice.outcome'])).toEqual([
    'admitted',
    'limited',
    'started',
  ])
})

test('decisions of sluice serve become the same, the last ones when it ends', async () => {
  const telemetry = `
    import { metrics, trace } from '@opentelemetry/api'
    import { InMemoryMetricExporter, MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics'
    import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'

    const measured = new InMemoryMetricExporter(${AggregationTemporality.CUMULATIVE})
    const meters = new MeterProvider({ readers: [new PeriodicExportingMetricReader({ exporter: measured })] })
    const traced = new InMemorySpanExporter()
    metrics.setGlobalMeterProvider(meters)
    trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(traced)] }))
    process.once('beforeExit', async () => {
      await meters.forceFlush()
      const points = measured.getMetrics().at(-1).scopeMetrics[0].metrics.flatMap(({ dataPoints }) => dataPoints)
      const values = points.map(({ attributes, value }) => [attributes, value.count ?? value])
      const outcomes = traced.getFinishedSpans().map(({ attributes }) => attributes['sluice.outcome'])
      process.stderr.write(JSON.stringify({ values, outcomes }))
    })`
  writeFileSync(join(folder, 'telemetry.js'), telemetry)
  const commands = code.find(({ text }) => text.includes('--on-decision'))?.text ?? ''
  const [, setUp, ...args] = /NODE_OPTIONS="(.+)"\nnpx sluice serve (\S+) (\S+)$/.exec(commands) ?? []
  const inFolder = (text = '') => text.replace('./', `${folder}/`)
  const variables = { STORE: 'memory', RATE_LIMITS: '2/1h', NODE_OPTIONS: inFolder(setUp) }
  const serving = await startServing(variables, args.map(inFolder))
  const ask = {
    method: 'POST',
    headers: { Authorization: `Bearer ${DECIDE_TOKEN}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ policy: 'default', identity: 'alice' }),
  }
  for (let i = 0; i < 3; i++) expect((await fetch(new URL('decide', serving.url), ask)).status).toBe(200)
  const { code: exitCode, stderr } = await serving.end()
  expect(exitCode).toBe(0)
  const by = (outcome: string) => ({ 'sluice.outcome': outcome, 'sluice.decided_by': 'memory' })
  expect(JSON.parse(stderr)).toEqual({
    values: [
      [by('granted'), 2],
      [by('refused'), 1],
      [{ 'sluice.limit': 'default-1h' }, 1],
    ],
    outcomes: ['granted', 'granted', 'refused'],
  })
})
