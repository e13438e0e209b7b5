import { expect, test } from 'vitest'
import { type Log, throttle } from '../../src/core/runtime/log.ts'

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
  for (let i = 0; i < 3; i++) log('error', { event: 'mirror' })
  log('error', { event: 'refused' })
  clock.now += 999
  log('error', { event: 'mirror' })
  clock.now += 1
  log('error', { event: 'mirror' })
  log('error', { event: 'refused' })
  expect(lines).toEqual([
    { level: 'error', event: 'mirror' },
    { level: 'error', event: 'refused' },
    { level: 'error', event: 'mirror', suppressed: 3 },
    { level: 'error', event: 'refused' },
  ])
})

test('throttle() does not fall silent when the clock steps back', () => {
  const { clock, lines, log } = subject()
  log('error', { event: 'mirror' })
  clock.now -= 3_600_000
  log('error', { event: 'mirror' })
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
