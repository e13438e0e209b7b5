/** A program that a test runs beside itself, and that ends with it, even if the test is killed. */
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { endTogether } from '../../tools/end-together.ts'

export interface Program<Child extends ChildProcess> {
  readonly child: Child
  readonly pid: number
  /** Ends it, and resolves to its exit code when it is gone, and its folder with it. */
  end(signal?: NodeJS.Signals): Promise<number | null>
}

/** @param folder of its own, or a file: it is removed at the end */
export function startProgram<Child extends ChildProcess = ChildProcess>(
  command: string,
  args: readonly string[],
  { folder = '', ...options }: SpawnOptions & { readonly folder?: string } = {},
): Program<Child> {
  const child = spawn(command, args, options) as Child
  const pid = child.pid as number
  const closed = once(child, 'close') as Promise<[number | null]>
  const removeGuard = endTogether(pid, folder)
  return {
    child,
    pid,
    async end(signal = 'SIGKILL') {
      child.kill(signal)
      const [code] = await closed
      removeGuard()
      if (folder !== '') await rm(folder, { recursive: true, force: true })
      return code
    },
  }
}
