#!/usr/bin/env node
/**
 * The command of the package `sluice`: who imports a limiter does not install what it needs. It runs the package
 * `sluice-command`, and where that is not installed, npm fetches it.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import manifest from '../package.json' with { type: 'json' }

const COMMAND = 'sluice-command'

if (isInstalled()) await import(COMMAND)
else {
  // npm asks before it fetches, as for every package.
  const args = ['exec', `--package=${COMMAND}@${manifest.version}`, '--', COMMAND, ...process.argv.slice(2)]
  // On Windows, npm is a script for its shell.
  const child = spawn('npm', args, { stdio: 'inherit', shell: process.platform === 'win32' })
  // Ctrl-C reaches both: the command decides when it ends.
  process.on('SIGINT', () => {})
  process.on('SIGTERM', () => child.kill('SIGTERM'))
  const [code] = await once(child, 'exit')
  process.exitCode = code ?? 1
}

function isInstalled(): boolean {
  try {
    import.meta.resolve(COMMAND)
    return true
  } catch {
    return false
  }
}
