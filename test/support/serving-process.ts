import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { endTogether } from '../../tools/end-together.ts'
import { DECIDE_TOKEN } from './decisions.ts'
import { ofNode } from './of-node.ts'
import { PATIENT } from './site.ts'

export interface ServingProcess {
  readonly url: URL
  /** Tells it to end, as an orchestrator does. @returns its exit code, and what it has said of errors */
  end(signal?: 'SIGTERM' | 'SIGINT'): Promise<{ readonly code: number | null; readonly stderr: string }>
  stop(): Promise<void>
}

/** Runs `sluice serve` at a free port. @param env variables, tables among them as objects */
export async function startServing(env: Readonly<Record<string, unknown>>): Promise<ServingProcess> {
  const given = Object.entries({ DECIDE_TOKEN, ...PATIENT, ...env }).map(([name, value]) => [
    name,
    typeof value === 'string' ? value : JSON.stringify(value),
  ])
  const child = spawn(process.execPath, [join(import.meta.dirname, '../../src/cli.ts'), 'serve', '--port', '0'], {
    cwd: '/',
    env: { ...ofNode(), ...Object.fromEntries(given) },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const removeGuard = endTogether(child.pid as number, '')
  const stderr = text(child.stderr)
  const closed = once(child, 'close') as Promise<[number | null]>
  const end = async (signal: NodeJS.Signals) => {
    child.kill(signal)
    const [code] = await closed
    removeGuard()
    return { code, stderr: await stderr }
  }
  for await (const line of createInterface(child.stdout)) {
    const [url] = /http:\S+/.exec(line) ?? []
    if (url === undefined) break
    child.stdout.resume()
    return {
      url: new URL(url),
      end: (signal = 'SIGTERM') => end(signal),
      stop: async () => void (await end('SIGKILL')),
    }
  }
  throw new Error(`sluice serve did not start: ${(await end('SIGKILL')).stderr}`)
}
