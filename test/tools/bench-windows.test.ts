import { expect, test } from 'vitest'
import { idealAdmissions, mostInAWindow } from '../../bench/accuracy/windows.ts'

const at = (ms: number) => ({ earliestMs: ms, latestMs: ms })

test('mostInAWindow() counts the fullest window, which an admission one window old has left', () => {
  expect(mostInAWindow([], 100)).toBe(0)
  expect(mostInAWindow([0, 50, 100, 150].map(at), 100)).toBe(2)
  expect(mostInAWindow([0, 50, 99, 150].map(at), 100)).toBe(3)
})

test('mostInAWindow() counts no admission that may lie outside', () => {
  const late = { earliestMs: 60, latestMs: 130 }
  expect(mostInAWindow([at(0), at(50), late], 100)).toBe(2)
  expect(mostInAWindow([at(0), at(50), late], 131)).toBe(3)
})

test('idealAdmissions() admits what an exact log admits', () => {
  // 0 and 10 fill the window; 60 and 99 find no room; 100 takes the place of 0, and 110 that of 10.
  expect(idealAdmissions([0, 10, 60, 99, 100, 105, 110], [{ limit: 2, windowMs: 100 }])).toBe(4)
  expect(idealAdmissions([110, 105, 100, 99, 60, 10, 0], [{ limit: 2, windowMs: 100 }])).toBe(4)
  expect(idealAdmissions([0, 1, 2], [{ limit: 5, windowMs: 100 }])).toBe(3)
})
