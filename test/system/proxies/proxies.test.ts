import type { ChildProcessByStdio } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdir, mkdtemp, readFile, writeFile } from 'node:fs/promises'
import { Agent } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { text as readText } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { findProxy, PROXIES, type ProxyName } from '../../../tools/find-proxies.ts'
import { findFreePort } from '../../../tools/free-port.ts'
import { DECIDE_TOKEN } from '../../support/decisions.ts'
import { json, type Sent, send } from '../../support/http-client.ts'
import { ofNode } from '../../support/of-node.ts'
import type { Part } from '../../support/parts.ts'
import { startProgram } from '../../support/program.ts'
import { type ServingProcess, startServing } from '../../support/serving-process.ts'
import { startUpstream, type Upstream } from '../../support/upstream.ts'
import { sendInLanes } from '../kit/traffic.ts'

const OPS = join(import.meta.dirname, '../../../ops')
const REQUESTS = 10_000
const LIMIT = 12_345
const LANES = 16

interface Proxy extends Part {
  readonly name: ProxyName
  readonly url: URL
}

/** What a request had that reached the API. */
interface Arrived {
  readonly path: string
  readonly method: string
}

const variables = {
  REDIS_URL: `redis://127.0.0.1:${inject('redisPort')}`,
  KEY_PREFIX: randomUUID(),
  POLICIES: listPolicies(),
}

let api: Upstream
let arrived: Arrived[] = []
let serving: readonly ServingProcess[] = []
let proxies: readonly Proxy[] = []

function listPolicies() {
  return [
    { name: 'all', by: 'token', match: '/counted/*', limits: `${LIMIT}/1h` },
    // One for each kind of proxy, as all send from one address.
    ...PROXIES.flatMap((name) => [
      { name: `${name}-login`, by: 'ip', match: `POST /${name}/login`, limits: '2/1h', algorithm: 'fixed-window' },
      { name: `${name}-address`, by: 'ip', match: `/${name}/address`, limits: '3/1h' },
    ]),
  ]
}

beforeAll(async () => {
  api = await startUpstream((request, response) => {
    arrived.push({ path: request.url ?? '', method: request.method ?? '' })
    response.end('hello')
  })
  serving = await Promise.all([startServing(variables), startServing(variables)])
  proxies = await Promise.all([...PROXIES, ...PROXIES].map(startProxy))
})
afterAll(async () => {
  for (const part of [...proxies, ...serving, ...(api ? [api] : [])]) await part.stop()
})

const FILES = { nginx: 'nginx.conf', caddy: 'Caddyfile', haproxy: 'haproxy.cfg' } as const satisfies Readonly<
  Record<ProxyName, string>
>

/** What a proxy listens at in its file, and what it listens at here. */
const LISTENS: Readonly<Record<ProxyName, (port: number) => readonly [string, string]>> = {
  nginx: (port) => ['listen 8080', `listen 127.0.0.1:${port}`],
  caddy: (port) => [':8080 {', `http://127.0.0.1:${port} {`],
  haproxy: (port) => ['bind :8080', `bind 127.0.0.1:${port}`],
}

/** Starts a proxy with the configuration in ops/, but for ports and token. */
async function startProxy(name: ProxyName): Promise<Proxy> {
  const program = await findProxy(name)
  const port = await findFreePort()
  const folder = await mkdtemp(join(tmpdir(), `sluice-${name}-`))
  const [first, second] = serving.map(({ url }) => url.host)
  const [listens, listensHere] = LISTENS[name](port)
  const replaced: Readonly<Record<string, string | undefined>> = {
    'a-token-of-at-least-32-characters': DECIDE_TOKEN,
    '127.0.0.1:8788': first,
    '127.0.0.1:8789': second,
    '127.0.0.1:3000': new URL(api.url).host,
    [listens]: listensHere,
  }
  const file = FILES[name]
  let text = await readFile(join(OPS, file), 'utf8')
  for (const [written, value = ''] of Object.entries(replaced)) {
    if (!text.includes(written)) throw new Error(`ops/${file} has no ${written}`)
    text = text.replaceAll(written, value)
  }
  // Where a package that is only unpacked may write.
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (kind) => `${kind}_temp_path ${folder}/${kind};`,
  )
  const config = join(folder, file)
  let args: readonly string[]
  if (name === 'nginx') {
    text = text.replace('http {', `http {\naccess_log off;\n${temporary.join('\n')}`)
    args = ['-p', folder, '-c', config, '-e', 'stderr', '-g', `daemon off; pid ${folder}/pid;`]
  } else if (name === 'caddy') {
    text = `{\n\tadmin off\n}\n${text}`
    args = ['run', '--adapter', 'caddyfile', '--config', config]
  } else {
    const inner = `127.0.0.1:${await findFreePort()}`
    text = text.replace('127.0.0.1:8787', inner)
    const script = await readFile(join(OPS, 'haproxy.lua'), 'utf8')
    await writeFile(join(folder, 'haproxy.lua'), script.replace('127.0.0.1:8787', inner))
    args = ['-db', '-C', folder, '-f', config]
  }
  await writeFile(config, text)
  await mkdir(join(folder, 'home'))
  const { child, end } = startProgram<ChildProcessByStdio<null, null, Readable>>(program, args, {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...ofNode(), HOME: join(folder, 'home') } as unknown as NodeJS.ProcessEnv,
    folder,
  })
  let log = ''
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
    log = (log + chunk).slice(-4_000)
  })
  const url = new URL(`http://127.0.0.1:${port}/`)
  while (!(await send(url, { path: '/ready' }).catch(() => undefined))) {
    if (child.exitCode !== null) throw new Error(`${name} has ended: ${log}`)
    await sleep(50)
  }
  // The workers of nginx end with their master if it gets this signal.
  return { name, url, stop: () => end('SIGTERM') }
}

test('six proxies and two processes with one Redis grant a limit exactly, of 10,000 requests each', async () => {
  arrived = []
  const headers = { Authorization: 'Bearer shared' }
  const sending = proxies.map(({ url }) =>
    sendInLanes({ requests: REQUESTS, lanes: LANES }, (index, agent) =>
      send(url, { path: `/counted/${index}`, headers, agent }),
    ),
  )
  const statuses = (await Promise.all(sending)).flat().map(({ status }) => status)
  const counts = [...Map.groupBy(statuses, (status) => status)].map(([status, { length }]) => [status, length])
  expect(Object.fromEntries(counts)).toEqual({ 200: LIMIT, 429: proxies.length * REQUESTS - LIMIT })
  expect(arrived.length).toBe(LIMIT)
})

describe.each(PROXIES)('%s', (name) => {
  const proxy = () => proxies.find((each) => each.name === name) as Proxy
  const post = (sent: Sent) => send(proxy().url, { method: 'POST', path: `/${name}/login`, body: 'user=a', ...sent })

  test('hands the refusal on, with Retry-After and the fields of the limits', async () => {
    const { status, headers, ...answer } = await send(proxy().url, {
      path: '/counted/last',
      headers: { Authorization: 'Bearer shared' },
    })
    expect(status).toBe(429)
    expect(Number(headers['retry-after'])).toBeGreaterThan(3_000)
    expect(headers['ratelimit-policy']).toBe(`"all-1h";q=${LIMIT};w=3600`)
    expect(headers.ratelimit).toMatch(/^"all-1h";r=0;t=\d+$/)
    expect(headers['content-type']).toContain('application/problem+json')
    expect(json({ status, headers, ...answer })).toMatchObject({ title: 'Too Many Requests', status: 429 })
  })

  test('is decided by the method and the path that the client has sent, whatever its fields claim', async () => {
    arrived = []
    const lies: readonly Record<string, string>[] = [
      { 'X-Forwarded-Method': 'GET', 'X-Forwarded-Uri': '/free' },
      { 'X-Original-Method': 'GET', 'X-Original-URI': '/free', 'X-Original-URL': '/free' },
      { 'Sluice-Token': 'x', 'Sluice-Status': '200', 'X-Forwarded-Host': 'other' },
      { 'X-Forwarded-For': '192.0.2.9', 'CF-Connecting-IP': '192.0.2.9', Forwarded: 'for=192.0.2.9' },
      { 'x-http-method': 'POST', 'X-Real-IP': '192.0.2.9' },
    ]
    const before = await Promise.all(lies.map((headers) => send(proxy().url, { path: '/free', headers })))
    expect(before.map(({ status }) => status)).toEqual(lies.map(() => 200))
    const statuses: number[] = []
    for (const headers of lies) statuses.push((await post({ headers })).status)
    expect(statuses).toEqual([200, 200, 429, 429, 429])
    expect(arrived.filter(({ method }) => method === 'POST')).toEqual(
      Array.from({ length: 2 }, () => ({ method: 'POST', path: `/${name}/login` })),
    )
  })

  test('takes no parameter of the client for its own', async () => {
    arrived = []
    const path = `/${name}/reset?token=of-the-client&refusals=403`
    expect((await send(proxy().url, { path })).status).toBe(200)
    expect(arrived).toEqual([{ method: 'GET', path }])
  })

  test('counts by the address of the client, and not by what it claims', async () => {
    const path = `/${name}/address`
    const statuses: number[] = []
    for (let index = 0; index < 5; index++) {
      const headers = { 'X-Forwarded-For': `192.0.2.${index}`, 'CF-Connecting-IP': `192.0.2.${index}` }
      const answer = await send(proxy().url, { path, headers })
      statuses.push(answer.status)
      expect(answer.headers.ratelimit).toMatch(new RegExp(`^"${name}-address-1h";r=\\d;t=\\d+$`))
    }
    expect(statuses).toEqual([200, 200, 200, 429, 429])
  })

  test('refuses a path that could be another one to the API', async () => {
    arrived = []
    const paths = ['/x/../', '/%2e%2e/', '//', '/x%2F..%2F'].map((before) => `${before}${name}/login`)
    const statuses: number[] = []
    for (const path of paths) statuses.push((await post({ path })).status)
    expect(statuses.every((status) => status === 400 || status === 429)).toBe(true)
    expect(arrived).toEqual([])
  })
})

describe.each(PROXIES)('%s', (name) => {
  test('hands on what is refused before it is decided', async () => {
    const [proxy] = proxies.filter((each) => each.name === name) as [Proxy]
    // HAProxy itself takes 101 fields at most.
    const many = Object.fromEntries(Array.from({ length: 120 }, (_, index) => [`X-Field-${index}`, 'x']))
    expect((await send(proxy.url, { path: '/free', headers: many })).status).toBe(name === 'haproxy' ? 400 : 431)
    expect((await send(proxy.url, { path: `/free?${'x'.repeat(8_000)}` })).status).toBe(200)
    expect((await send(proxy.url, { path: `/${'x'.repeat(5_000)}` })).status).toBe(414)
    const socket = connect(Number(proxy.url.port), '127.0.0.1')
    socket.write('GET /free HTTP/1.0\r\n\r\n')
    expect(await readText(socket)).toMatch(/^HTTP\/1\.[01] 200 /)
  })

  test('loses no request while both processes restart, one after the other, nor while one is down', async () => {
    const [proxy] = proxies.filter((each) => each.name === name) as [Proxy]
    let isDone = false
    const statuses = new Map<number, number>()
    const agent = new Agent({ keepAlive: true })
    const drive = async () => {
      while (!isDone) {
        const status = await send(proxy.url, { path: '/free', agent }).then(
          (answer) => answer.status,
          () => 0,
        )
        statuses.set(status, (statuses.get(status) ?? 0) + 1)
      }
    }
    const driving = Array.from({ length: LANES }, drive)
    const restarted = [...serving]
    for (const [index, before] of serving.entries()) {
      const { code } = await before.end()
      expect(code).toBe(0)
      const enough = (statuses.get(200) ?? 0) + 500
      // Only the other one is there.
      while ((statuses.get(200) ?? 0) < enough && statuses.size <= 1) await sleep(10)
      restarted[index] = await startServing(variables, ['--port', before.url.port])
      const more = (statuses.get(200) ?? 0) + 500
      while ((statuses.get(200) ?? 0) < more && statuses.size <= 1) await sleep(10)
    }
    serving = restarted
    isDone = true
    await Promise.all(driving)
    agent.destroy()
    expect([...statuses.keys()]).toEqual([200])
  })
})

test('lets nothing pass while no process of sluice serve is there', async () => {
  arrived = []
  await Promise.all(serving.map((each) => each.stop()))
  const answers = await Promise.all(proxies.map(({ url }) => send(url, { path: '/free' })))
  expect(answers.map(({ status }) => status >= 500)).toEqual(proxies.map(() => true))
  expect(arrived).toEqual([])
})
