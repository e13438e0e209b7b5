import { expect, test } from 'vitest'
import { type Log, throttleErrors } from '../../src/log.ts'

function subject() {
  const clock = { now: 1_700_000_000_000 }
  const lines: unknown[] = []
  const log: Log = throttleErrors(
    (level, fields) => lines.push({ level, ...fields }),
    () => clock.now,
  )
  return { clock, lines, log }
}

test('throttleErrors() lets one error of each event a second through, and counts the others', () => {
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

test('throttleErrors() does not fall silent when the clock steps back', () => {
  const { clock, lines, log } = subject()
  log('error', { event: 'a' })
  clock.now -= 3_600_000
  log('error', { event: 'a' })
  expect(lines).toHaveLength(2)
})

test('throttleErrors() holds back nothing but errors', () => {
  const { lines, log } = subject()
  for (let i = 0; i < 3; i++) log('info', { event: 'shadow_limited' })
  expect(lines).toHaveLength(3)
})
