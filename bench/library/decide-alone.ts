/**
 * Prints how long a decision takes in a process of its own, as in a program that limits in memory, in µs of processor
 * time: of the first ones, and of as many after them, and which share of these was granted.
 *
 *     node decide-alone.ts <limiter> <limits> <callers> <decisions>
 */
import { parseLimits } from '../../src/core/model/limits.ts'
import { createLimiter, slidingWindow } from '../../src/index.ts'
import { loadInProcess, type TryTake } from '../peers.ts'
import { readOwnUs } from '../processor-time.ts'

const [name = '', text = '', callerCount = '', decisionCount = ''] = process.argv.slice(2)
const limits = parseLimits(text) ?? []
const callers = Array.from({ length: Number(callerCount) }, (_, index) => `caller ${index}`)
const decisions = Number(decisionCount)
const { inMemory } = await loadInProcess()

const tryTake = name === 'Sluice' ? createOwn() : inMemory.find((each) => each.name === name)?.make(limits)
if (!tryTake) throw new Error(`no limiter is called ${name}`)
const cold = await decideAll(tryTake)
const warm = await decideAll(tryTake)
console.log(JSON.stringify({ coldUs: cold.us, us: warm.us, granted: warm.granted }))

async function decideAll(tryTake: TryTake): Promise<{ readonly us: number; readonly granted: number }> {
  let granted = 0
  const before = process.cpuUsage()
  for (let i = 0; i < decisions; i++) if (await tryTake(callers[i % callers.length] as string)) granted++
  return { us: readOwnUs(before) / decisions, granted: granted / decisions }
}

function createOwn() {
  const limiter = createLimiter({ policies: [{ name: 'bench', ...slidingWindow(text, { allowLargeLog: true }) }] })
  return async (caller: string) => (await limiter.take(caller)).granted
}
