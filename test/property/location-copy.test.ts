/** Rules that the isolates of a place read through a copy: they never go back, and no change is late. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import { MemoryDocuments } from '../../src/core/store/memory/memory-tables.ts'
import { LiveRulesEngine } from '../../src/gateway/rules/live-rules-engine.ts'
import { LocationCopy } from '../../src/gateway/rules/location-copy.ts'
import { loadConfig } from '../../src/http/config/load-config.ts'
import { composeLimiter } from '../../src/http/request/request-limiter.ts'
import { createPathReader } from '../../src/http/request/target.ts'
import { drawInteger, seededRandom } from '../../tools/seeded-random.ts'
import { callContext } from '../support/call-context.ts'
import { editRules } from '../support/edit-rules.ts'
import { expectProperty } from '../support/property.ts'
import { VirtualClock } from '../support/virtual-clock.ts'

const STEPS = 300
const EXCHANGE = {
  request: new Request('https://gateway.test/things'),
  path: createPathReader([])('/things'),
  context: callContext([]),
}
const ENV = { UPSTREAM_URL: 'https://api.test', RULES: 'on' }
const config = loadConfig(ENV)

/** A store and a cache that take their time; the cache loses some of what it was given. */
class Place {
  readonly clock = new VirtualClock()
  readonly documents = new MemoryDocuments(() => this.clock.now())
  readonly log: unknown[] = []
  reads = 0
  looks = 0
  readonly #random: () => number
  readonly #refreshMs: number
  readonly #cached = new Map<string, string>()

  constructor(seed: number, refreshMs: number) {
    this.#random = seededRandom(seed)
    this.#refreshMs = refreshMs
  }

  draw(low: number, high: number): number {
    return drawInteger(this.#random, low, high)
  }

  createIsolate(): LiveRulesEngine {
    // Clocks of two machines are not quite the same.
    const skewMs = this.draw(-2, 2)
    const now = () => this.clock.now() + skewMs
    const documents = {
      ...{
        readVersion: this.documents.readVersion,
        readHistory: this.documents.readHistory,
        write: this.documents.write,
      },
      read: async (...known: Parameters<MemoryDocuments['read']>) => {
        this.reads++
        await this.clock.sleep(this.draw(1, this.#refreshMs / 2))
        const read = await this.documents.read(...known)
        await this.clock.sleep(this.draw(1, this.#refreshMs / 2))
        return read
      },
    }
    const cache = {
      match: async (url: string) => {
        this.looks++
        await this.clock.sleep(this.draw(0, 5))
        const text = this.#cached.get(url)
        return text === undefined || this.draw(1, 50) === 1 ? undefined : new Response(text)
      },
      put: async (url: string, response: Response) => {
        const text = await response.text()
        await this.clock.sleep(this.draw(0, 30))
        if (this.draw(1, 50) === 1) throw new Error('the cache is full')
        this.#cached.set(url, text)
      },
    }
    const copy = new LocationCopy({
      documents,
      openCache: async () => cache,
      path: '/_sluice/secret',
      maxAgeMs: this.#refreshMs,
      now,
    })
    const log = (level: string, fields: object) => void this.log.push({ level, ...fields })
    const composed = composeLimiter({
      ...config,
      store: new MemoryStore(now),
      now,
      log,
      leases: undefined,
      health: undefined,
      createSettlement: undefined,
    })
    const rules = { refreshMs: this.#refreshMs, isShadow: false }
    const parts = { documents, auditLog: this.documents, copy, rules, config, env: ENV, composed, now, log }
    return new LiveRulesEngine({ ...parts, readClaim: undefined })
  }
}

test('no isolate goes back, none decides by rules that ended two refreshes ago, and the store is read for all at once', async () => {
  const sum = { looks: 0, reads: 0, versions: 0 }
  await expectProperty(
    fc.asyncProperty(fc.integer({ min: 1 }), fc.integer({ min: 100, max: 4_000 }), async (seed, refreshMs) => {
      const place = new Place(seed, refreshMs)
      const isolates = Array.from({ length: 6 }, () => ({ engine: place.createIsolate(), version: 0 }))
      const written = [{ version: 0, atMs: place.clock.now() }]
      const decisions: Promise<void>[] = []
      const wrong: unknown[] = []
      for (let step = 0; step < STEPS; step++) {
        if (place.draw(1, 60) === 1) {
          const { version } = await editRules(
            place.documents,
            (rules) => ({ ...rules, allows: [{ cidr: `10.0.${written.length}.0/24` }] }),
            {
              nowMs: place.clock.now(),
            },
          )
          written.push({ version, atMs: place.clock.now() })
        }
        const isolate = isolates[place.draw(0, isolates.length - 1)]
        if (!isolate) throw new Error('no isolate was drawn')
        const startMs = place.clock.now()
        const decision = isolate.engine.decide(EXCHANGE).then(() => {
          const { version } = isolate.engine.active
          expect(version).toBeGreaterThanOrEqual(isolate.version)
          isolate.version = version
          // Clocks differ by up to 4 ms.
          const due = written.findLast(({ atMs }) => atMs < startMs - 2 * refreshMs - 4)
          expect(version).toBeGreaterThanOrEqual(due?.version ?? 0)
        })
        decisions.push(decision.catch((error) => void wrong.push(error)))
        await place.clock.advance(place.draw(0, refreshMs / 5))
      }
      await place.clock.finish(Promise.all(decisions))
      expect(wrong).toEqual([])
      sum.looks += place.looks
      sum.reads += place.reads
      sum.versions += written.length - 1
      expect(place.log.filter((line) => JSON.stringify(line).includes('rules_lost'))).toEqual([])
    }),
    400,
  )
  expect(sum.versions).toBeGreaterThan(0)
  // In seven looks of six isolates, each copy is good for about four.
  expect(sum.reads).toBeLessThan(sum.looks / 2)
})
