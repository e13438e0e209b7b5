/** A private Redis, for development, tests and benches. */
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { endTogether } from './end-together.ts'
import { findRedisServer } from './find-redis-server.ts'
import { findFreePort } from './free-port.ts'

const HOST = '127.0.0.1'
const START_TIMEOUT_MS = 60_000
const LOG_TAIL_LENGTH = 4_000

export interface RedisServerOptions {
  /** Default: a free one. */
  port?: number
  /** More command-line options for redis-server, e.g. `['--maxmemory', '1mb']`. */
  args?: readonly string[]
  /** More variables of its environment. */
  env?: Readonly<Record<string, string>>
  /** The executable; default: what `findRedisServer()` returns. */
  binary?: string
}

export interface RedisServer {
  readonly port: number
  readonly pid: number
  /** Resolves when the process is gone, however that came about, with the end of its log. */
  readonly exited: Promise<string>
  /** Ends the process at once, without saving, and resolves when it is gone and its port is free. May be repeated. */
  stop(): Promise<void>
}

/**
 * Starts a private Redis on 127.0.0.1 that keeps nothing on disk, and resolves when it accepts connections.
 * It cannot outlive this process, even if that is killed.
 * @throws Error with the end of Redis's log if it does not start (e.g. the port is taken).
 */
export async function startRedisServer(options: RedisServerOptions = {}): Promise<RedisServer> {
  const binary = options.binary ?? (await findRedisServer())
  if (options.port !== undefined) return launch(binary, options.port, options)

  // Another process may take a free port before Redis does.
  for (let attempt = 1; ; attempt++) {
    try {
      return await launch(binary, await findFreePort(), options)
    } catch (error) {
      if (attempt === 5 || !String(error).includes('Address already in use')) throw error
    }
  }
}

/** Folders of servers, which go with this process if it ends in between. */
const folders = new Set<string>()
process.once('exit', () => folders.forEach(removeFolder))

function removeFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true })
  folders.delete(folder)
}

async function launch(
  binary: string,
  port: number,
  { args: extraArgs = [], env }: RedisServerOptions,
): Promise<RedisServer> {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-redis-'))
  folders.add(directory)
  const args = ['--bind', HOST, '--protected-mode', 'yes', '--save', '', '--appendonly', 'no', '--dir', directory]
  // Options that this function itself relies on come last, where they win.
  const fixedArgs = ['--port', `${port}`, '--daemonize', 'no', '--logfile', '', '--loglevel', 'notice']
  const child = spawn(binary, [...args, ...extraArgs, ...fixedArgs], {
    argv0: 'redis-server',
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
    // Out of the terminal's process group: Ctrl-C reaches the parent only, which then ends things in order.
    detached: true,
  })

  let log = ''
  const ready = Promise.withResolvers<undefined>()
  const collect = (chunk: string) => {
    log = (log + chunk).slice(-LOG_TAIL_LENGTH)
    if (log.includes('Ready to accept connections')) ready.resolve(undefined)
  }
  child.stdout.setEncoding('utf8').on('data', collect)
  child.stderr.setEncoding('utf8').on('data', collect)

  const closed = Promise.withResolvers<string>()
  child.once('error', (error) => closed.resolve(error.message))
  child.once('close', () => closed.resolve(log))
  const removeGuard = child.pid === undefined ? undefined : endTogether(child.pid, directory)
  const exited = closed.promise.then((lastWords) => {
    removeGuard?.()
    removeFolder(directory)
    return lastWords
  })
  const stop = async () => {
    child.kill('SIGKILL')
    await exited
  }

  const deadline = setTimeout(() => child.kill('SIGKILL'), START_TIMEOUT_MS)
  try {
    const failure = await Promise.race([ready.promise, exited])
    if (failure !== undefined) throw new Error(`redis-server did not start on port ${port}: ${failure.trim()}`)
  } catch (error) {
    await stop()
    throw error
  } finally {
    clearTimeout(deadline)
  }
  return { port, pid: child.pid as number, exited, stop }
}
