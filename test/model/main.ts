/**
 * The long form: `npm run test:model`. Explores the runs of each scenario, and prints what it has visited: all states,
 * or as many as `-- --states <number>` says.
 */
import { parseArgs } from 'node:util'
import { explore } from './explore.ts'
import { report } from './report.ts'
import { PLANTED, SCENARIOS } from './scenarios.ts'
import { World } from './world.ts'

const { values } = parseArgs({ options: { states: { type: 'string', default: '300000' } } })
const most = Number(values.states)
let isWrong = false
for (const [name, scenario] of Object.entries(SCENARIOS)) {
  const found = explore(new World(scenario), most)
  console.log(report(name, found))
  isWrong ||= found.violations > 0
}
for (const [name, scenario] of Object.entries(PLANTED)) {
  const found = explore(new World(scenario), most)
  console.log(report(`planted: an object ${name}`, found))
  isWrong ||= found.violations === 0
}
process.exit(isWrong ? 1 : 0)
