import { expect, test } from 'vitest'
import { type Log, throttle } from '../../src/runtime/log.ts'

function subject() {
  const clock = { now: 1_700_000_000_000 }
  const lines: unknown[] = []
  const log: Log = throttle(
    (level, fields) => lines.push({ level, ...fields }),
    () => clock.now,
  )
  return { clock, lines, log }
}

test('throttle() lets one error of each event a second through, and counts the others', () => {
  const { clock, lines, log } = subject()
  for (let i = 0; i < 3; i++) log('error', { event: 'a' })
  log('error', { event: 'b' })
  clock.now += 999
  log('error', { event: 'a' })
  clock.now += 1
  log('error', { event: 'a' })
  log('error', { event: 'b' })
  expect(lines).toEqual([
    { level: 'error', event: 'a' },
    { level: 'error', event: 'b' },
    { level: 'error', event: 'a', suppressed: 3 },
    { level: 'error', event: 'b' },
  ])
})

test('throttle() does not fall silent when the clock steps back', () => {
  const { clock, lines, log } = subject()
  log('error', { event: 'a' })
  clock.now -= 3_600_000
  log('error', { event: 'a' })
  expect(lines).toHaveLength(2)
})

test('throttle() counts warnings as errors, and holds back no information', () => {
  const { clock, lines, log } = subject()
  for (let i = 0; i < 3; i++) log('info', { event: 'store_recovered' })
  expect(lines.splice(0)).toHaveLength(3)
  for (let i = 0; i < 3; i++) log('warn', { event: 'shadow_limited' })
  clock.now += 1_000
  log('warn', { event: 'shadow_limited' })
  expect(lines).toEqual([
    { level: 'warn', event: 'shadow_limited' },
    { level: 'warn', event: 'shadow_limited', suppressed: 2 },
  ])
})
