/**
 * Processor time of the gateway for each MB of a stream that it reads for its cost, above that of one that it passes
 * through unread. Two minutes.
 *
 *     npm run bench:streams
 */
import { once } from 'node:events'
import { get, type RequestListener } from 'node:http'
import { withBundle } from '../test/support/build-bundle.ts'
import { startDirectGateway } from '../test/support/direct-gateway.ts'
import { startUpstream } from '../test/support/upstream.ts'
import { readRunUs } from './processor-time.ts'

const MB = 1_000_000
const STREAMED = 20 * MB
const ROUNDS = 9
/** Events of a language model, and how many of them come at once. */
const EVENT = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"small","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}],"usage":null}\n\n`
const AT_ONCE = [1, 20]
const COSTS = { unread: undefined, 'read for tokens': 'json:/usage/total_tokens', 'counted in bytes': 'bytes' } as const

/** Streams so many events at once, as fast as they are read. */
const stream: RequestListener = async (request, response) => {
  response.setHeader('Content-Type', 'text/event-stream')
  const chunk = EVENT.repeat(Number(request.url?.slice(1)))
  for (let sent = 0; sent < STREAMED; sent += chunk.length) {
    if (!response.write(chunk)) await once(response, 'drain')
    // Else the system sends several of them as one.
    else await new Promise(setImmediate)
  }
  response.end('data: {"usage":{"total_tokens":12}}\n\ndata: [DONE]\n\n')
}

const median = (values: readonly number[]) => values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN

await withBundle(async (bundle) => {
  const upstream = await startUpstream(stream)
  const starting = Object.entries(COSTS).map(async ([name, cost]) => {
    const policy = {
      name: 'tokens',
      limits: '1000000000/1s',
      allow_large_log: true,
      ...(cost && { actual_cost: cost }),
      ...(cost?.startsWith('json:') && { untold: 1 }),
    }
    const bindings = { UPSTREAM_URL: upstream.url, STORE: 'durable-object', RATE_LIMITS: 'off', POLICIES: [policy] }
    return { name, gateway: await startDirectGateway({ bundle, bindings, objects: 'memory' }) }
  })
  const variants = await Promise.all(starting)
  try {
    for (const atOnce of AT_ONCE) {
      const us = new Map<string, number[]>(variants.map(({ name }) => [name, []]))
      for (let round = 0; round < ROUNDS; round++) {
        for (const { name, gateway } of variants) {
          const before = readRunUs(gateway.pid)
          const [answer] = await once(get(new URL(`/${atOnce}`, gateway.url)), 'response')
          if (answer.statusCode !== 200) throw new Error(`answered ${answer.statusCode}`)
          for await (const _ of answer);
          // The first round is that of a cold isolate.
          if (round > 0) us.get(name)?.push(((readRunUs(gateway.pid) - before) / STREAMED) * MB)
        }
      }
      const unread = median(us.get('unread') ?? [])
      for (const [name, each] of us) {
        const own = median(each)
        console.log(
          `${atOnce * EVENT.length} bytes at once, ${name}: ${(own / 1_000).toFixed(2)} ms a MB, ${((own / unread - 1) * 100).toFixed(0)}% above`,
        )
      }
    }
  } finally {
    for (const { gateway } of variants) await gateway.stop()
    await upstream.stop()
  }
})
