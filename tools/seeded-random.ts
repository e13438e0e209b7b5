/** Chance that can be repeated. */
export { createRandom as seededRandom } from '../src/command/simulate/traffic.ts'

/** An integer, both ends included. @param random a number from 0 to below 1 */
export function drawInteger(random: () => number, low: number, high: number): number {
  return low + Math.floor(random() * (high - low + 1))
}

/** The seed that this variable of the environment names, to replay a run; else a new one. */
export function readSeed(variable: string): number {
  return Number(process.env[variable] ?? Math.floor(Math.random() * 2 ** 32))
}
