/** Reads the processor time of processes. */
import { readdirSync, readFileSync } from 'node:fs'

/** Microseconds that the threads of a process have run, by the scheduler's own account, finer than its clock's ticks. */
export function readRunUs(pid: number): number {
  const tasks = readdirSync(`/proc/${pid}/task`)
  const ns = tasks.map((task) => Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, 'utf8').split(' ')[0]))
  return ns.reduce((sum, each) => sum + each, 0) / 1_000
}

/** Microseconds that this process has run since a moment, or since its start. */
export function readOwnUs(since?: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(since)
  return user + system
}
