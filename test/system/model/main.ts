/**
 * The long form: `npm run test:model`. Explores every run of each scenario, and prints what it has visited; with
 * `-- --states <number>`, no more states of each than that. With a part of a name, only the scenarios that have it.
 */
import { parseArgs } from 'node:util'
import { explore } from './explore.ts'
import { report } from './report.ts'
import { LONG, PLANTED } from './scenarios.ts'
import { World } from './world.ts'

const { values, positionals } = parseArgs({
  options: { states: { type: 'string', default: 'Infinity' } },
  allowPositionals: true,
})
const most = Number(values.states)
const isMeant = ([name]: readonly [string, unknown]) => positionals.every((part) => name.includes(part))
let isWrong = false
for (const [name, scenario] of Object.entries(LONG).filter(isMeant)) {
  const found = explore(new World(scenario), most)
  console.log(report(name, found))
  isWrong ||= found.violations > 0
}
for (const [name, scenario] of Object.entries(PLANTED).filter(isMeant)) {
  const found = explore(new World(scenario), most)
  console.log(report(`planted: an object ${name}`, found))
  isWrong ||= found.violations === 0
}
console.log(`${(process.cpuUsage().user / 1e6).toFixed(0)} s of processor time`)
process.exit(isWrong ? 1 : 0)
