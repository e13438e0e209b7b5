import { execFileSync } from 'node:child_process'
import { statSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const FOLDER = fileURLToPath(import.meta.resolve('.'))

/** Installs the peers, unless they are as the lock says, and checks what is written for them. */
export function installPeers(): void {
  if (timeOf('node_modules/.package-lock.json') < timeOf('package-lock.json')) {
    console.error('Installing the peers …')
    execFileSync('npm', ['ci', '--prefix', FOLDER, '--no-audit', '--no-fund', '--loglevel=error'], { stdio: 'inherit' })
  }
  execFileSync('tsc', ['-p', FOLDER], { stdio: 'inherit' })
}

function timeOf(file: string): number {
  return statSync(`${FOLDER}/${file}`, { throwIfNoEntry: false })?.mtimeMs ?? 0
}
