import { readFile } from 'node:fs/promises'

const PAGE_BYTES = 4_096

/** Resident memory of each process in MiB, in their order. */
export function residentMiB(processes: readonly { readonly pid: number }[]): Promise<number[]> {
  return Promise.all(
    processes.map(async ({ pid }) => {
      const [, resident = '0'] = (await readFile(`/proc/${pid}/statm`, 'utf8')).split(' ')
      return (Number(resident) * PAGE_BYTES) / 2 ** 20
    }),
  )
}
