/** Real frameworks that take several places for one set of parameters: whom they find is counted as that caller, or as nobody. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { findFreePort } from '../../../tools/free-port.ts'
import { findExecutable, findProgram, readPath } from '../../../tools/programs.ts'
import { createJudge, receive } from '../../support/judge-readings.ts'
import { type Placed, READERS, readGiven, send, VALUE } from '../../support/merged-places.ts'
import { startProgram } from '../../support/program.ts'

const APIS = fileURLToPath(import.meta.resolve('./apis/places/'))
const PHP = {
  title: 'PHP',
  names: ['php'],
  packages: { 'apt-get': 'php-cli', dnf: 'php-cli', brew: 'php' },
  advice: 'Install it: "apt-get install php-cli"',
}

/** By the name of its model. Those but PHP are tried where they are installed. */
const FRAMEWORKS: Readonly<Record<string, (port: string) => readonly string[]>> = {
  'PHP without a php.ini ($_REQUEST)': (port) => ['php', '-n', '-S', `127.0.0.1:${port}`, `${APIS}request.php`],
  'PHP with its php.ini ($_REQUEST)': (port) => [
    ...['php', '-n', '-d', 'request_order=GP', '-S', `127.0.0.1:${port}`, `${APIS}request.php`],
  ],
  'Flask (request.values)': (port) => ['python3', `${APIS}flask_values.py`, port],
  'Sinatra (params)': (port) => ['ruby', `${APIS}sinatra_params.rb`, port],
  'Mojolicious (param)': (port) => ['perl', `${APIS}mojolicious_param.pl`, port],
}
const MODULES: Readonly<Record<string, readonly string[]>> = {
  python3: ['-c', 'import flask'],
  ruby: ['-e', 'require "sinatra/base"'],
  perl: ['-MMojolicious::Lite', '-e', '1'],
}

const VALUES = [undefined, VALUE, 'junk']
const bodies = (['form', 'json'] as const).flatMap((body) => VALUES.map((inBody) => ({ body, inBody })))
const ALL: readonly Placed[] = VALUES.flatMap((query) =>
  VALUES.flatMap((cookie) =>
    VALUES.flatMap((route) => bodies.map((body) => ({ query, cookie, route, isLong: false, ...body }))),
  ),
)
const PLACES = ['query', 'form', 'json', 'cookie'] as const

test.for(Object.entries(FRAMEWORKS))('%s', async ([name, start], { skip }) => {
  const port = String(await findFreePort())
  const [command = '', ...args] = start(port)
  if (command === 'php') await findProgram(PHP)
  const path = await findExecutable(command, readPath())
  if (!path || !(await hasModule(path, MODULES[command]))) return skip(`${name} is not installed`)
  const judges = await Promise.all(PLACES.map(async (place) => [place, await createJudge(place, VALUE)] as const))
  const program = startProgram(path, args, { stdio: 'ignore' })
  onTestFinished(async () => void (await program.end()))
  await expect.poll(() => fetch(`http://127.0.0.1:${port}/`).catch(() => undefined), { timeout: 60_000 }).toBeDefined()
  let found = 0
  for (const placed of ALL) {
    const { query, headers, body } = send(placed)
    const { route } = placed
    const target = `http://127.0.0.1:${port}${route === undefined ? '/' : `/at/${route}`}?${query}`
    const method = body === undefined ? 'GET' : 'POST'
    const response = await fetch(target, { method, headers, ...(body !== undefined && { body }) })
    const seen = await response.text()
    const who = `${name}, for ${JSON.stringify(placed)}`
    expect(seen, who).toBe(READERS[name]?.(readGiven(placed)) ?? '')
    if (seen !== VALUE) continue
    found++
    const at = route === undefined ? undefined : { route: 'POST /:api_key/:my_sid', path: `/${route}/${route}` }
    for (const [place, judge] of judges) {
      const { outcome } = await judge(receive({ query, headers, ...(body !== undefined && { body }) }), at)
      expect(outcome, `${who}, by ${place}`).not.toBe('another caller')
    }
  }
  expect(found).toBeGreaterThan(ALL.length / 6)
})

async function hasModule(path: string, args: readonly string[] | undefined): Promise<boolean> {
  if (!args) return true
  const [code] = await once(spawn(path, args, { stdio: 'ignore' }), 'close')
  return code === 0
}
