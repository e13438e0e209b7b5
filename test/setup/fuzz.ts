import type { TestProject } from 'vitest/node'

declare module 'vitest' {
  export interface ProvidedContext {
    /** `scale` multiplies the number of cases of the short form. */
    fuzz: { readonly seed: number; readonly scale: number }
  }
}

/** Cases of the long form for one of the short form. */
const LONG_SCALE = 40

/** One seed for all fuzz tests of a run: FUZZ_SEED, or a new one, which is printed. FUZZ=long asks for the long form. */
export default function fuzz({ provide }: TestProject): void {
  const seed = Number(process.env.FUZZ_SEED ?? Math.floor(Math.random() * 2 ** 31))
  console.log(`FUZZ_SEED=${seed}`)
  provide('fuzz', { seed, scale: process.env.FUZZ === 'long' ? LONG_SCALE : 1 })
}
