/** An older release and this one side by side, as during a rollout: they count together, and neither loses anything. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, inject, onTestFinished, test } from 'vitest'
import { startRestFront } from '../../tools/rest-front.ts'
import { listReleases, unpackWorker } from '../fixtures/fixture-files.ts'
import { startDirectGateway } from '../support/direct-gateway.ts'
import { sendInTurn } from '../support/http-client.ts'
import { startObjectSite } from '../support/object-site.ts'
import { startParts } from '../support/parts.ts'
import { answerArrival, PATIENT } from '../support/site.ts'
import { startUpstream } from '../support/upstream.ts'

const newer = inject('bundle')
const folder = await mkdtemp(join(tmpdir(), 'sluice-older-'))
afterAll(() => rm(folder, { recursive: true }))

const LIMIT = 20
const hourly = { limits: `${LIMIT}/1h` }
const POLICIES = [
  { name: 'window', match: '/window', ...hourly },
  { name: 'bucket', match: '/bucket', ...hourly, algorithm: 'token-bucket' },
  { name: 'fixed', match: '/fixed', ...hourly, algorithm: 'fixed-window' },
  { name: 'two', match: '/two', ...hourly },
  { name: 'all', match: '/two', limits: '500/1h', by: 'global' },
]
const PATHS = ['/window', '/bucket', '/fixed', '/two']

/** Each path gets twice its limit, by turns and then at once. @returns how many were admitted at each */
async function countAdmitted(urls: readonly URL[]): Promise<Readonly<Record<string, number>>> {
  const admitted: Record<string, number> = {}
  const at = (index: number) => urls[index % urls.length] as URL
  for (const path of PATHS) {
    const sent = { path, headers: { Authorization: 'Bearer caller' } }
    const statuses: number[] = []
    for (let index = 0; index < LIMIT / 2; index++) statuses.push(...(await sendInTurn(at(index), [sent])))
    const others = Array.from({ length: 1.5 * LIMIT }, (_, index) => sendInTurn(at(index), [sent]))
    statuses.push(...(await Promise.all(others)).flat())
    admitted[path] = statuses.filter((status) => status === 200).length
    expect(new Set(statuses), path).toEqual(new Set([200, 429]))
  }
  return admitted
}

const ALL = Object.fromEntries(PATHS.map((path) => [path, LIMIT]))

describe.each(listReleases())('%s beside this code', (release) => {
  const older = unpackWorker(release, folder)

  test.each(['off', 'auto'])('on one Redis, with leases %s', async (LEASES) => {
    const site = await startParts(async (add) => {
      const upstream = await add(startUpstream(answerArrival))
      const front = await add(startRestFront({ redisPort: inject('redisPort'), token: 'rest-token' }))
      const bindings = {
        ...{ UPSTREAM_URL: upstream.url, UPSTASH_REDIS_REST_URL: front.url, UPSTASH_REDIS_REST_TOKEN: front.token },
        ...{ ...PATIENT, POLICIES, LEASES, KEY_PREFIX: `rollout-${crypto.randomUUID()}` },
      }
      const gateways = [older, newer].map((bundle) => add(startDirectGateway({ bundle, bindings })))
      return { urls: (await Promise.all(gateways)).map(({ url }) => url) }
    })
    onTestFinished(async () => void (await site.stop()))
    expect(await countAdmitted(site.urls)).toEqual(ALL)
  })

  test.each([
    ['this code', newer],
    ['the older one', older],
  ])('on objects that run %s', async (_, bundle) => {
    const variables = { STORE: 'durable-object', POLICIES }
    const site = await startObjectSite({ bundle, bundles: [older, newer], points: 2, variables })
    onTestFinished(async () => void (await site.stop()))
    expect(await countAdmitted(site.urls)).toEqual(ALL)
  })
})
