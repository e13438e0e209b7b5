import type { TestProject } from 'vitest/node'

declare module 'vitest' {
  export interface ProvidedContext {
    fuzz: {
      readonly seed: number
      readonly isLong: boolean
      /** Cases of a fuzz test, for each that it asks for. */
      readonly scale: number
      /** Cases of a law, for each that it asks for. */
      readonly share: number
    }
  }
}

/** By FUZZ: how many cases are tried. */
const LENGTHS = {
  short: { scale: 0.4, share: 0.05 },
  system: { scale: 1, share: 0.1 },
  long: { scale: 40, share: 10 },
} as const

/**
 * One seed for all random cases of a run. The short form always takes the same, so that every run of it is alike;
 * FUZZ_SEED names another, and the longer forms draw one, which is printed.
 */
export default function fuzz({ provide }: TestProject): void {
  const length = (process.env.FUZZ ?? 'short') as keyof typeof LENGTHS
  const { FUZZ_SEED } = process.env
  const drawn = () => Math.floor(Math.random() * 2 ** 31)
  const seed = FUZZ_SEED ? Number(FUZZ_SEED) : length === 'short' ? 1 : drawn()
  if (length !== 'short') console.log(`FUZZ_SEED=${seed}`)
  provide('fuzz', { seed, isLong: length === 'long', ...LENGTHS[length] })
}
