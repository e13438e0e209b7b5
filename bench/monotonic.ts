/** Milliseconds of a clock that all processes of the machine share and that is never set. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}
