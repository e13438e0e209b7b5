/**
 * Counts the files and functions of `src` that one call enters, warm, with a limit in memory: to a server that reports
 * none, and to one that does.
 *
 *     node bench/outbound-functions.ts
 */
import { Session } from 'node:inspector/promises'
import { outbound } from '../src/outbound.ts'

const WARM_CALLS = 20
const URL_OF_API = 'https://api.example/repos/octocat'

const session = new Session()
session.connect()
await session.post('Profiler.enable')

async function countFunctions(headers: Record<string, string>): Promise<string> {
  const call = outbound(async () => new Response(null, { headers }), { limits: '100000/1m' })
  for (let count = 0; count < WARM_CALLS; count++) await call(URL_OF_API)
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  await call(URL_OF_API)
  const { result } = await session.post('Profiler.takePreciseCoverage')
  await session.post('Profiler.stopPreciseCoverage')
  const entered = result
    .filter(({ url }) => url.includes('/src/'))
    .map(({ functions }) => functions.filter(({ ranges }) => (ranges[0]?.count ?? 0) > 0).length)
    .filter((count) => count > 0)
  return `${entered.length} files, ${entered.reduce((sum, count) => sum + count, 0)} functions`
}

const reset = String(Math.ceil(Date.now() / 1_000) + 3_000)
console.log(`nothing reported: ${await countFunctions({})}`)
console.log(
  `GitHub's headers: ${await countFunctions({
    'x-ratelimit-limit': '5000',
    'x-ratelimit-remaining': '4000',
    'x-ratelimit-reset': reset,
    'x-ratelimit-resource': 'core',
    date: new Date().toUTCString(),
  })}`,
)
