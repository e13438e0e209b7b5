import { expect, inject, test } from 'vitest'
import { seededRandom } from '../../../tools/seeded-random.ts'
import { formatQuestion } from '../../support/language-model.ts'
import { connectRedis } from '../../support/redis-client.ts'
import { residentMiB } from '../faults/memory.ts'
import { readUnitsAdmitted } from '../kit/streams.ts'
import { sendInLanes } from '../kit/traffic.ts'
import { listGrowths, type Sample } from '../soak/growth.ts'
import { ask, startSite, TOKENS } from './site.ts'

const STREAMS = 10_000
const LANES = 64
const SHARE = 0.05
const KILLED_AFTER = STREAMS / 2
/** Longer than a charge at the end of a stream takes. */
const SETTLED_MS = 3_000
const UNTOLD = 5
const POLICIES = [
  { name: 'tokens', limits: '1000000000/1d', actual_cost: TOKENS, untold: UNTOLD, allow_large_log: true },
]

/** What a stream that the API breaks off is charged: Anthropic's begin with what went in. */
const READ = { openai: () => UNTOLD, anthropic: (input: number) => Math.max(input, UNTOLD) }

test('ten thousand streams, of which clients and the API break some off and one gateway dies, are charged', async () => {
  const site = await startSite({ bundle: inject('bundle'), store: 'redis', gateways: 3, policies: POLICIES })
  const redis = await connectRedis(site.redis.port)
  const send = (command: readonly string[]) => redis.sendCommand([...command])
  try {
    const random = seededRandom(1)
    const [dying, ...others] = site.gateways as readonly [
      (typeof site.gateways)[number],
      (typeof site.gateways)[number],
    ]
    let killedAtMs = Number.POSITIVE_INFINITY
    const answered: { readonly cost: number; readonly isOfDying: boolean; readonly endMs: number }[] = []
    const memory: Sample[] = []
    await sendInLanes({ requests: STREAMS, lanes: LANES }, async (index) => {
      if (index === KILLED_AFTER) {
        killedAtMs = Date.now()
        process.kill(dying.pid, 'SIGKILL')
      }
      if (index % (STREAMS / 100) === 0) {
        const held = (await residentMiB(others)).map((mib, at) => [`gateway ${at}`, mib])
        memory.push({ requests: index, held: Object.fromEntries(held) })
      }
      const [input, output] = [1 + (index % 97), 1 + (index % 89)]
      const form = index % 2 === 0 ? 'openai' : 'anthropic'
      const fate = random()
      const [leaves, breaks] = [fate < SHARE, fate >= SHARE && fate < 2 * SHARE]
      const isOfDying = Date.now() < killedAtMs && index % 3 === 0
      const { url } = isOfDying ? dying : (others[index % others.length] as typeof dying)
      const path = formatQuestion(form, { input, output, isStream: true, pauseMs: 20, breaks })
      const status = await ask(url, { path, caller: isOfDying ? 'dying' : 'living', leaves })
      const endMs = Date.now()
      answered.push({ cost: breaks ? READ[form](input) : input + output, isOfDying, endMs })
      if (!breaks && !(isOfDying && endMs >= killedAtMs)) expect(status).toBe(200)
    })
    const sum = (some: typeof answered) => some.reduce((units, { cost }) => units + cost, 0)
    const [ofLiving, ofDying] = [false, true].map((isOf) => answered.filter(({ isOfDying }) => isOfDying === isOf))
    // Of what was in flight in the gateway when it died, or being settled, it is not known what had been charged.
    const certain = sum((ofDying ?? []).filter(({ endMs }) => endMs < killedAtMs - SETTLED_MS))
    const readCharged = async () => {
      const keys = await redis.keys('*:tokens:*')
      const units = await Promise.all(keys.map((key) => readUnitsAdmitted(send, key)))
      return units.toSorted((a, b) => b - a)
    }
    // What clients have left is read on to its end.
    await expect.poll(async () => (await readCharged())[0], { timeout: 30_000 }).toBe(sum(ofLiving ?? []))
    const [living, dead = 0] = await readCharged()
    expect(dead).toBeGreaterThanOrEqual(certain)
    expect(dead).toBeLessThanOrEqual(sum(ofDying ?? []))
    const [{ length }, last] = [answered, memory.at(-1)]
    console.log(
      `${length} streams: ${living} tokens used and charged; ${dead} of ${sum(ofDying ?? [])} by the one that died`,
    )
    console.log(`MiB at the end: ${JSON.stringify(last?.held)}`)
    expect(listGrowths(memory, STREAMS / 2)).toEqual({ wrong: [], missing: [] })
  } finally {
    await redis.close()
    await site.stop()
  }
})
