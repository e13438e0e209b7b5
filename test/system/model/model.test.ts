import { expect, test } from 'vitest'
import { explore, formatExploration } from './explore.ts'
import { PLANTED, SHORT, SMALL } from './scenarios.ts'
import { World } from './world.ts'

// `npm run test:model` explores larger ones.
test.each(Object.entries(SHORT))('%s: nobody too many is let through, and nothing stays reserved', (name, scenario) => {
  const found = explore(new World(scenario))
  console.log(formatExploration(name, found))
  expect([found.violations, found.first, found.isComplete]).toEqual([0, undefined, true])
  expect(found.ends).toBeGreaterThan(0)
})

test.each(Object.entries(PLANTED))('it is found if an object %s', (name, scenario) => {
  const found = explore(new World(scenario))
  console.log(formatExploration(`planted: an object ${name}`, found))
  expect(found.violations).toBeGreaterThan(0)
})

test.each(Object.entries(SMALL))('what is left out leads to no other end: %s', (_name, scenario) => {
  const findEnds = (isReduced: boolean) => {
    const world = new World(scenario, isReduced)
    const outcomes = new Set<string>()
    const found = explore(world, Number.POSITIVE_INFINITY, (end) => outcomes.add(world.describeEnd(end)))
    return { violations: found.violations, outcomes: [...outcomes].toSorted() }
  }
  expect(findEnds(true)).toMatchObject({ ...findEnds(false), violations: 0 })
})
