import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { main, type World } from '../../src/command/main.ts'
import { ofNode } from '../support/of-node.ts'

const CLI = join(import.meta.dirname, '../../src/cli.ts')

export interface RunOptions {
  readonly cwd?: string
  /** Variables of its environment, which has nothing else but how Node is found, and started fast. */
  readonly env?: Readonly<Record<string, string>>
  /** Written to its standard input, which is no terminal. */
  readonly input?: string
  /** Sends it a Ctrl-C when it has printed so many lines. */
  readonly interruptAfterLines?: number
}

export interface Outcome {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** Runs the command inside of this process, which takes a hundredth of the time; not where the process itself matters. */
export async function runInside(
  args: readonly string[],
  { cwd = '/', env = {}, input = '' }: RunOptions = {},
): Promise<Outcome> {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()]
  const world = { stdin: Readable.from([input]), stdout, stderr, env, cwd: () => cwd, exit: () => {}, on: () => {} }
  const code = await main(args, world as unknown as World)
  return { code, stdout: readWritten(stdout), stderr: readWritten(stderr) }
}

/** Not every release of Node reads all at once. */
function readWritten(stream: PassThrough): string {
  let written = ''
  for (let chunk = stream.read(); chunk !== null; chunk = stream.read()) written += chunk
  return written
}

/** Runs the command as a process of its own, to its end. */
export async function runCommand(
  args: readonly string[],
  { cwd = '/', env = {}, input = '', interruptAfterLines }: RunOptions = {},
): Promise<Outcome> {
  const child = spawn(process.execPath, [CLI, ...args], {
    cwd,
    env: { ...ofNode(), ...env } as unknown as NodeJS.ProcessEnv,
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  child.stdin.on('error', () => {})
  child.stdin.end(input)
  let lines = 0
  child.stdout.on('data', function interrupt(chunk: Buffer) {
    lines += chunk.toString().split('\n').length - 1
    if (interruptAfterLines === undefined || lines < interruptAfterLines) return
    child.stdout.off('data', interrupt)
    child.kill('SIGINT')
  })
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  return { code, stdout, stderr }
}
