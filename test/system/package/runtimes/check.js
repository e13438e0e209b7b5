/**
 * Uses the built library on whatever runtime this is: `check.js <port of a Redis> <module of @redis/client>`. Plain
 * JavaScript, which all of them run. Ends with an error if anything is not as it should be.
 */
import assert from 'node:assert/strict'
import process from 'node:process'
import {
  concurrency,
  createLimiter,
  OptionError,
  quota,
  redisStore,
  SlidingWindowCounter,
  slidingWindow,
  tokenBucket,
} from '../../../../lib/index.js'

const [port = '', clientModule = ''] = process.argv.slice(2)
const { createClient } = await import(clientModule)
const client = await createClient({ socket: { host: '127.0.0.1', port: Number(port) } }).connect()

for (const store of [undefined, redisStore(client, { timeoutMs: 60_000 })]) {
  const common = { keyPrefix: crypto.randomUUID(), ...(store && { store }) }
  const limiter = createLimiter({
    ...common,
    policies: [
      { name: 'calls', ...slidingWindow('2/200ms, 3/1h') },
      { name: 'burst', ...tokenBucket('100/1s') },
    ],
  })
  assert.equal((await limiter.take('alice', { cost: 2 })).granted, true)
  assert.equal((await limiter.waitFor('alice')).granted, true)
  const refused = await limiter.waitFor('alice', { maxWaitMs: 1_000 })
  assert.equal(refused.granted, false)
  assert.ok(refused.retryAfterMs > 3_000_000)
  await limiter.reset('alice')
  assert.equal((await limiter.peek('alice')).granted, true)

  const day = createLimiter({ ...common, policies: [{ name: 'day', ...quota('5/1d') }] })
  const obtained = await day.takeUpTo('alice', 9)
  assert.equal(obtained.granted, 5)
  await day.refund('alice', obtained, 2)
  assert.equal((await day.takeUpTo('alice', 9)).granted, 2)

  const jobs = createLimiter({ ...common, policies: [{ name: 'jobs', ...concurrency(1) }] })
  const slot = await jobs.hold('alice')
  assert.equal((await jobs.hold('alice')).granted, false)
  // What `await using` does, where the runtime knows the syntax.
  await slot[Symbol.asyncDispose]()
  assert.equal((await jobs.hold('alice')).granted, true)

  const counter = new SlidingWindowCounter({ window: '1h', ...common })
  await counter.add(3)
  assert.equal(await counter.get(), 3)
}
assert.throws(() => createLimiter({ limits: 'many' }), OptionError)
await client.close()
process.exit()
