import { expect, test } from 'vitest'
import { LUA } from '../../src/core/store/redis/more-lua.ts'
import { joinScript, listScriptArguments } from '../../src/core/store/redis/script.ts'
import { createCharge, take } from '../support/charges.ts'
import { shareRedis } from '../support/own-redis.ts'

const redis = shareRedis()

function occurrences(text: string, part: string): number {
  return text.split(part).length - 1
}

test('joinScript() joins the modules that are used, and what several of them take but once', () => {
  const sliding = joinScript('decide', new Set(['sliding-window']), LUA)
  expect(occurrences(sliding, 'local function ms_and_total')).toBe(1)
  expect(sliding).not.toMatch(/ZADD|'SET'/)
  const counting = joinScript('decide', new Set(['quota', 'fixed-window']), LUA)
  expect(occurrences(counting, "'SET'")).toBe(1)
  expect(counting).not.toMatch(/XADD|ZADD/)
  const sets = joinScript('decide', new Set(['sorted-set', 'concurrency']), LUA)
  expect(occurrences(sets, 'unpack(arguments)')).toBe(1)
})

test('joinScript() joins the same algorithms in one way, in whatever order they came', () => {
  const [one, other] = [['quota', 'sorted-set'] as const, ['sorted-set', 'quota'] as const]
  expect(joinScript('decide', new Set(one), LUA)).toBe(joinScript('decide', new Set(other), LUA))
})

test.each([
  ['is an error, as on Upstash', "function() error('not supported') end"],
  ['is gone', 'nil'],
])('a sorted set is kept where replicate_commands %s', async (_case, replicateCommands) => {
  const script = `
    local redis = { call = redis.call, replicate_commands = ${replicateCommands} }
    ${joinScript('decide', new Set(['sorted-set']), LUA)}`
  const request = take([createCharge('sorted-set', [{ limit: 2, windowMs: 60_000 }])])
  const keys = request.charges.map(({ key }) => key)
  const reply = await redis.eval(script, { keys, arguments: listScriptArguments(request).map(String) })
  expect(reply).toEqual([1, expect.any(Number), 1, 60_000, 0])
})
