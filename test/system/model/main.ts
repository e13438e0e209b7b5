/**
 * The long form: `npm run test:model`. Explores every run of each scenario, and prints what it has visited; with
 * `-- --states <number>`, no more states of each than that. With a part of a name, only the scenarios that have it.
 */
import { parseArgs } from 'node:util'
import { explore, formatExploration } from './explore.ts'
import { LONG, PLANTED } from './scenarios.ts'
import { World } from './world.ts'

const options = { states: { type: 'string', default: 'Infinity' } } as const
const { values, positionals } = parseArgs({ options, allowPositionals: true })
const isMeant = ([name]: readonly [string, unknown]) => positionals.every((part) => name.includes(part))

for (const [scenarios, isPlanted] of [
  [LONG, false],
  [PLANTED, true],
] as const) {
  for (const [name, scenario] of Object.entries(scenarios).filter(isMeant)) {
    const found = explore(new World(scenario), Number(values.states))
    const title = isPlanted ? `planted: an object ${name}` : name
    console.log(formatExploration(title, found))
    if (found.violations > 0 === isPlanted) continue
    console.error(`${title}: ${found.violations} violations`)
    process.exitCode = 1
  }
}
console.log(`${(process.cpuUsage().user / 1e6).toFixed(0)} s of processor time`)
