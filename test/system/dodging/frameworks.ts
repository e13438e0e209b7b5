import { type ChildProcessByStdio, execFile } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { Readable, Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { installExact } from '../../support/install-exact.ts'
import { startProgram } from '../../support/program.ts'
import type { Router } from './routes.ts'

const FOLDER = fileURLToPath(import.meta.resolve('.'))
const NODE = fileURLToPath(import.meta.resolve('../../../node_modules/.bin/node'))

export interface Framework extends Router {
  readonly name: string
  /** Package in ./package.json, or module of Python. */
  readonly source: { readonly npm: string } | { readonly python: string }
}

export const FRAMEWORKS: readonly Framework[] = [
  { name: 'express4', source: { npm: 'express4' }, takesNothing: false },
  { name: 'express5', source: { npm: 'express5' }, takesNothing: false },
  { name: 'fastify4', source: { npm: 'fastify4' }, takesNothing: true },
  { name: 'fastify5', source: { npm: 'fastify5' }, takesNothing: true },
  { name: 'koa', source: { npm: '@koa/router' }, takesNothing: false },
  { name: 'h3v1', source: { npm: 'h3-1' }, takesNothing: false },
  { name: 'h3v2', source: { npm: 'h3-2' }, takesNothing: false },
  { name: 'hono', source: { npm: 'hono' }, takesNothing: false },
  { name: 'flask', source: { python: 'flask' }, takesNothing: false },
  { name: 'fastapi', source: { python: 'fastapi' }, takesNothing: false },
  { name: 'django', source: { python: 'django' }, takesNothing: false },
]

/** Installs the frameworks of npm. */
export function installFrameworks(): void {
  installExact(FOLDER, ['--ignore-scripts'])
}

/** @returns undefined if this machine's Python does not have the framework */
export async function findVersion({ source }: Framework): Promise<string | undefined> {
  if ('npm' in source) {
    return JSON.parse(readFileSync(`${FOLDER}/node_modules/${source.npm}/package.json`, 'utf8')).version
  }
  const script = `import ${source.python}; from importlib.metadata import version; print(version("${source.python}"))`
  try {
    return (await promisify(execFile)('python3', ['-c', script])).stdout.trim()
  } catch {
    return undefined
  }
}

export interface Api {
  readonly url: string
  stop(): Promise<void>
}

/** Starts a framework's API as a process of its own, which ends with this one. */
export async function startApi({ name, source }: Framework): Promise<Api> {
  const [command, args] =
    'npm' in source ? [NODE, [`${FOLDER}/apis/main.js`, name]] : ['python3', [`${FOLDER}/apis/${name}_api.py`]]
  const { child, end } = startProgram<ChildProcessByStdio<Writable, Readable, null>>(command, args, {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, NODE_ENV: 'production' },
  })
  const port = await Promise.race([readFirstLine(child.stdout), once(child, 'exit')])
  if (typeof port !== 'string') throw new Error(`the API of ${name} did not start`)
  return { url: `http://127.0.0.1:${port}`, stop: async () => void (await end()) }
}

async function readFirstLine(output: Readable): Promise<string> {
  const [chunk] = await once(output.setEncoding('utf8'), 'data')
  return String(chunk).trim()
}
