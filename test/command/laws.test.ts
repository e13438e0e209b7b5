import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { covers, findImplied } from '../../src/command/check/implied.ts'
import type { Settings } from '../../src/command/settings/settings.ts'
import { ALGORITHMS } from '../../src/core/algorithms/algorithm-table.ts'
import type { StoreCharge } from '../../src/core/model/charge.ts'
import type { Pattern } from '../../src/core/model/policy.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import { type Config, loadConfig } from '../../src/http/config/load-config.ts'
import { PatternRouter, parsePattern } from '../../src/http/request/policy/pattern.ts'
import { expectProperty } from '../support/property.ts'

const limits = fc
  .uniqueArray(fc.tuple(fc.integer({ min: 1, max: 12 }), fc.constantFrom(1, 2, 3, 5, 10, 20)), {
    minLength: 1,
    maxLength: 3,
    selector: ([, seconds]) => seconds,
  })
  .map((limits) => limits.map(([limit, seconds]) => `${limit}/${seconds}s`).join(', '))
const algorithm = fc.constantFrom('sliding-window', 'sorted-set', 'fixed-window', 'quota')
const cost = fc.constantFrom(1, 1, 2)
/** Milliseconds between requests, often none. */
const traffic = fc.array(
  fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 900 }), fc.integer({ min: 900, max: 3_000 })),
  {
    minLength: 20,
    maxLength: 150,
    size: 'max',
  },
)

function createConfig(tables: readonly object[]): { readonly config: Config; readonly settings: Settings } | undefined {
  const variables = { UPSTREAM_URL: 'https://api.acme.test', POLICIES: tables }
  const settings = { variables, sources: new Map(), file: undefined, devVars: undefined, root: [] }
  try {
    return { config: loadConfig(variables), settings }
  } catch {
    // A cost above a limit.
    return undefined
  }
}

function createCharges({ policies }: Config): readonly StoreCharge[] {
  return policies.map(({ name, algorithm, limits, cost }) => ({
    key: `${name}:${ALGORITHMS[algorithm].letter}`,
    algorithm,
    limits,
    cost: cost.kind === 'fixed' ? cost.units : 1,
    mode: 'enforce',
    reserved: 0,
  }))
}

/** For each request, which limits refused it. */
async function refusals(config: Config, gaps: readonly number[]): Promise<readonly (readonly string[])[]> {
  let nowMs = 1_700_000_000_123
  const store = new MemoryStore(() => nowMs)
  const seen: string[][] = []
  for (const gapMs of gaps) {
    nowMs += gapMs
    const { usage } = await store.decide({ action: 'take', permits: 1, charges: createCharges(config) })
    const names = config.policies.flatMap(({ limits }, index) =>
      limits.filter((_, at) => (usage[index]?.[at]?.retryAfterMs ?? 0) > 0).map(({ name }) => name),
    )
    seen.push(names)
  }
  return seen
}

describe('findImplied()', () => {
  test('names no limit that ever refuses alone', async () => {
    const cases = fc.record({ limits, algorithm, cost, traffic })
    await expectProperty(
      fc.asyncProperty(cases, async ({ traffic, ...table }) => {
        const { config, settings } = createConfig([{ name: 'p', by: 'global', ...table }]) ?? {}
        fc.pre(config !== undefined && settings !== undefined)
        const implied = [...findImplied(config, settings)].map(({ message }) => /the limit (\S+)/.exec(message)?.[1])
        fc.pre(implied.length > 0)
        for (const names of await refusals(config, traffic)) {
          if (names.length > 0) expect(names.filter((name) => !implied.includes(name))).not.toEqual([])
        }
      }),
      400,
    )
  })

  test('names no policy that ever refuses alone', async () => {
    const table = fc.record({ limits, algorithm, cost, by: fc.constantFrom('global', 'token', 'ip') })
    await expectProperty(
      fc.asyncProperty(table, table, traffic, async (one, other, gaps) => {
        const { config, settings } =
          createConfig([
            { name: 'one', ...one },
            { name: 'other', ...other },
          ]) ?? {}
        fc.pre(config !== undefined && settings !== undefined)
        const implied = [...findImplied(config, settings)].map(({ message }) => /^policy "(\w+)"/.exec(message)?.[1])
        fc.pre(implied.some((name) => name !== undefined))
        for (const names of await refusals(config, gaps)) {
          if (names.length > 0) expect(names.filter((name) => !implied.includes(name.split('-')[0]))).not.toEqual([])
        }
      }),
      200,
    )
  })
})

describe('covers()', () => {
  const method = fc.constantFrom('GET', 'HEAD', 'POST', '*')
  const pattern = fc
    .tuple(method, fc.array(fc.constantFrom('a', 'b', ':x', '*', 'a.*', 'a.b'), { maxLength: 3 }))
    .map(([method, segments]) => parsePattern(`${method} /${segments.join('/')}`))
    .filter((pattern): pattern is Pattern => pattern !== undefined)
  const path = fc
    .tuple(fc.array(fc.constantFrom('a', 'b', 'A', 'a.b', 'a.c', 'c'), { maxLength: 4 }), fc.constantFrom('', '/'))
    .map(([segments, end]) => `/${segments.join('/')}${segments.length > 0 ? end : ''}`)

  test('is true only if all that the other pattern matches is matched', async () => {
    const cases = fc.tuple(pattern, pattern, fc.boolean(), fc.constantFrom('GET', 'HEAD', 'POST', 'PUT'), path)
    await expectProperty(
      fc.asyncProperty(cases, async ([one, other, ignoresCase, method, path]) => {
        fc.pre(covers(one, other, ignoresCase))
        const router = new PatternRouter<string>()
        router.add(one, 'one')
        router.add(other, 'other', ignoresCase)
        const found = router.match(method, path)
        expect(found.includes('other') && !found.includes('one')).toBe(false)
      }),
      4_000,
    )
  })

  test.each([
    ['*', 'POST /login'],
    ['GET *', 'HEAD /a'],
    ['GET /files/*', 'GET /files/:name'],
    ['GET /:x', 'GET /a'],
    ['GET /a.*', 'GET /a.json'],
  ])('%s covers %s', (one, other) => {
    expect(covers(parsePattern(one) as Pattern, parsePattern(other) as Pattern)).toBe(true)
  })
})
