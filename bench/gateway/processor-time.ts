import { readFileSync } from 'node:fs'

/** Of the clock in which Linux tells processor time: https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html */
const TICKS_PER_SECOND = 100

/** Microseconds of processor time that a process has taken so far; NaN where there is no /proc. */
export function processorUs(pid: number): number {
  try {
    // After the name, which is in parentheses and may hold anything.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? []
    return ((Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND) * 1e6
  } catch {
    return Number.NaN
  }
}
