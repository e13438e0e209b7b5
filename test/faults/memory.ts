import { readdir, readFile } from 'node:fs/promises'

const PAGE_BYTES = 4_096

/** The workerd processes that this process has started. */
export async function workerdPids(): Promise<number[]> {
  const names = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const found = await Promise.all(
    names.map(async (name) => {
      // A process that has ended since has no such file.
      const stat = await readFile(`/proc/${name}/stat`, 'utf8').catch(() => '')
      const [, command, parent] = /^\d+ \((.*)\) \S+ (\d+)/s.exec(stat) ?? []
      return command === 'workerd' && Number(parent) === process.pid ? [Number(name)] : []
    }),
  )
  return found.flat()
}

/** Resident memory of each process in MiB, in the order of the pids. */
export function residentMiB(pids: readonly number[]): Promise<number[]> {
  return Promise.all(
    pids.map(async (pid) => {
      const [, resident = '0'] = (await readFile(`/proc/${pid}/statm`, 'utf8')).split(' ')
      return (Number(resident) * PAGE_BYTES) / 2 ** 20
    }),
  )
}
