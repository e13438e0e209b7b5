import { seededRandom } from '../../../tools/seeded-random.ts'

/** Numbers that look random and are the same for the same seed. */
export class Random {
  /** From 0 up to 1, exclusive. */
  readonly share: () => number

  constructor(seed: number) {
    this.share = seededRandom(seed)
  }

  /** An integer, both ends included. */
  between(low: number, high: number): number {
    return low + Math.floor(this.share() * (high - low + 1))
  }
}
