/** Changes that no test can notice, because they change nothing that anybody sees. */
export interface Survivor {
  readonly file: string
  /** Part of the line that is changed. */
  readonly line: string
  /** The text that replaces it. */
  readonly replacement: string
  readonly reason: string
}

export const SURVIVORS: readonly Survivor[] = [
  {
    file: 'src/core/algorithms/corrections.ts',
    line: 'return slots?.[kind](state, slot, Math.floor(nowUs / 1000), limits[0]?.windowMs ?? 0)',
    replacement: 'limits[0].windowMs',
    reason: 'a charge has a limit; the type of an array does not say so',
  },
]
