/** Changes that no test can notice, because they change nothing that anybody sees. */
export interface Survivor {
  readonly file: string
  /** The line that is changed, without its indentation. */
  readonly line: string
  /** The text that replaces a part of it; of Lua, the whole line as it then is. */
  readonly replacement: string
  readonly reason: string
}

const SURVIVORS: readonly Survivor[] = [
  {
    file: 'src/core/algorithms/corrections.ts',
    line: 'return slots?.[kind](state, slot, Math.floor(nowUs / 1000), limits[0]?.windowMs ?? 0)',
    replacement: 'limits[0].windowMs',
    reason: 'a charge has a limit; the type of an array does not say so',
  },
]

export function isNamed(file: string, line: string, replacement: string | undefined): boolean {
  return SURVIVORS.some((one) => one.file === file && one.line === line && one.replacement === replacement)
}
