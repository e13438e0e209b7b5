import { expect, test } from 'vitest'
import { LUA } from '../../src/store/redis/more-lua.ts'
import { listScriptArguments, Scripts } from '../../src/store/redis/script.ts'
import { chargeOf, take } from '../support/charges.ts'
import { sharedRedis } from '../support/own-redis.ts'

const redis = sharedRedis()

const SCRIPTS = new Scripts(LUA)

function occurrences(text: string, part: string): number {
  return text.split(part).length - 1
}

test('Scripts#decide() joins the modules that are used, and what several of them take but once', () => {
  const sliding = SCRIPTS.decide(new Set(['sliding-window']))
  expect(occurrences(sliding, 'local function ms_and_total')).toBe(1)
  expect(sliding).not.toMatch(/ZADD|'SET'/)
  const counting = SCRIPTS.decide(new Set(['quota', 'fixed-window']))
  expect(occurrences(counting, "'SET'")).toBe(1)
  expect(counting).not.toMatch(/XADD|ZADD/)
  const sets = SCRIPTS.decide(new Set(['sorted-set', 'concurrency']))
  expect(occurrences(sets, 'unpack(arguments)')).toBe(1)
})

test.each([
  ['is an error, as on Upstash', "function() error('not supported') end"],
  ['is gone', 'nil'],
])('a sorted set is kept where replicate_commands %s', async (_case, replicateCommands) => {
  const script = `
    local redis = { call = redis.call, replicate_commands = ${replicateCommands} }
    ${SCRIPTS.decide(new Set(['sorted-set']))}`
  const request = take([chargeOf('sorted-set', [{ limit: 2, windowMs: 60_000 }])])
  const keys = request.charges.map(({ key }) => key)
  const reply = await redis.client.eval(script, { keys, arguments: listScriptArguments(request).map(String) })
  expect(reply).toEqual([1, expect.any(Number), 1, 60_000, 0])
})
