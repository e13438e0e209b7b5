/** Processes that do not outlive the one that started them. */
import { spawn } from 'node:child_process'

/**
 * Ends a process together with this one. Handlers for 'exit' and signals would miss a SIGKILL; a shell that waits on a
 * pipe from this process misses nothing, as the pipe closes in any case.
 * @param folder is removed then
 * @returns a function that removes the guard
 */
export function endTogether(pid: number, folder: string): () => void {
  const script = 'read -r _; kill -9 "$1"; rm -rf "$2"'
  const shell = spawn('/bin/sh', ['-c', script, 'sh', `${pid}`, folder], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  })
  return () => shell.kill('SIGKILL')
}
