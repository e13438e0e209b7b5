import { expect, test } from 'vitest'
import { explore } from './explore.ts'
import { report } from './report.ts'
import { PLANTED, SCENARIOS } from './scenarios.ts'
import { World } from './world.ts'

/** `npm run test:model` visits many more. */
const MOST_STATES = 4_000

test.each(Object.entries(SCENARIOS))(
  '%s: nobody too many is let through, and nothing stays reserved',
  (name, scenario) => {
    const found = explore(new World(scenario), MOST_STATES)
    console.log(report(name, found))
    expect([found.violations, found.first]).toEqual([0, undefined])
    expect(found.ends).toBeGreaterThan(0)
  },
)

test.each(Object.entries(PLANTED))('it is found if an object %s', (name, scenario) => {
  const found = explore(new World(scenario), MOST_STATES)
  console.log(report(`planted: an object ${name}`, found))
  expect(found.violations).toBeGreaterThan(0)
})
