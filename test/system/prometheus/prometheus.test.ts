import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { findPrometheus } from '../../../tools/find-prometheus.ts'
import { METRICS_TOKEN, startCountedGateway } from '../../support/counted-gateway.ts'
import { startPrometheus } from '../../support/prometheus.ts'
import { share } from '../../support/share.ts'

const OPS = join(import.meta.dirname, '../../../ops')
const run = promisify(execFile)

describe('a real Prometheus', () => {
  const gateway = share(startCountedGateway)
  const prometheus = share(() => startPrometheus(gateway.url, METRICS_TOKEN))

  type Result = { readonly metric: Record<string, string>; readonly value: readonly [number, string] }[]
  const query = async (expression: string) =>
    ((await prometheus.ask('/query', { query: expression })).data as { result: Result }).result

  test('scrapes it, and reads every number and label', async () => {
    await expect
      .poll(() => query('up').catch(() => []), { interval: 200 })
      .toMatchObject([{ value: [expect.any(Number), '1'] }])
    const { activeTargets } = (await prometheus.ask('/targets')).data as { activeTargets: { lastError: string }[] }
    expect(activeTargets).toMatchObject([{ lastError: '', health: 'up' }])
    expect(await query('sluice_requests_total{outcome="limited"}')).toMatchObject([
      { value: [expect.any(Number), '100'] },
    ])
    expect(await query('sluice_policy_requests_total')).toMatchObject([
      { metric: { policy: 'login', route: 'POST /a\\b"c', outcome: 'limited' }, value: [expect.any(Number), '100'] },
      { metric: { policy: 'trial', route: '*', outcome: 'shadow_limited' }, value: [expect.any(Number), '40'] },
    ])
    expect(await query('histogram_quantile(0.5, sluice_store_latency_seconds_bucket)')).toHaveLength(1)
    const metadata = (await prometheus.ask('/metadata')).data as Record<string, { type: string; help: string }[]>
    expect(metadata.sluice_store_latency_seconds).toMatchObject([{ type: 'histogram', unit: 'seconds' }])
  })

  test('understands each expression of the dashboard and of the alerts, and has what they need', async () => {
    await expect.poll(() => query('up').catch(() => []), { interval: 200 }).toHaveLength(1)
    const dashboard = JSON.parse(await readFile(join(OPS, 'grafana-dashboard.json'), 'utf8')) as {
      panels: { title: string; targets: { expr: string }[] }[]
    }
    const alerts = await readFile(join(OPS, 'alerts.yml'), 'utf8')
    const expressions = dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr))
    expect(expressions.length).toBeGreaterThan(15)
    const values: Record<string, string> = { job: 'sluice', policy: '.*', __rate_interval: '1m' }
    for (const expression of expressions) {
      await query(expression.replaceAll(/\$(\w+)/g, (_, name: string) => values[name] ?? 'unknown'))
    }
    const names = new Set([...expressions, alerts].join(' ').match(/\bsluice_\w+/g))
    expect(names.size).toBeGreaterThanOrEqual(10)
    for (const name of names) expect(await query(`count(${name})`), name).toHaveLength(1)
    const rules = [...alerts.matchAll(/^ +expr: (.*)$/gm)].map(([, rule]) => rule ?? '')
    let labels = 0
    for (const expression of [...expressions, ...rules]) {
      const grouping = [...expression.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, list]) => list?.split(/\s*,\s*/) ?? [])
      const selecting = [...expression.matchAll(/(\w+)(?:=~|!~|!=|=)"/g)].map(([, label]) => label ?? '')
      const metrics = expression.match(/\bsluice_\w+/g) ?? []
      for (const label of [...grouping, ...selecting].filter((one) => one !== 'job')) {
        const found = await Promise.all(metrics.map((name) => query(`count(${name}{${label}!=""})`)))
        expect(found.flat().length, `${label} in ${expression}`).toBeGreaterThan(0)
        labels++
      }
    }
    expect(labels).toBeGreaterThan(15)
  })
})

describe('promtool', () => {
  const promtool = async (...args: string[]) => {
    const tool = await findPrometheus()
    const { stdout } = await run(tool.promtool, args, { cwd: OPS })
    return stdout
  }

  test('finds no mistake in ops/', async () => {
    expect(await promtool('check', 'config', '--syntax-only', 'prometheus.yml')).toContain('SUCCESS')
    expect(await promtool('check', 'rules', 'alerts.yml')).toContain('SUCCESS: 9 rules found')
  })

  test('sees each alert fire when it should, and none on a good day', async () => {
    expect(await promtool('test', 'rules', 'alerts.test.yml')).toContain('SUCCESS')
  })
})
