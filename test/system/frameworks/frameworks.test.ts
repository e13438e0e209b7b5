/** Each place where requests are answered: does the packed package bundle and run there, and hold what it promises? */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import type { ClientRequest, IncomingHttpHeaders } from 'node:http'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { buffer } from 'node:stream/consumers'
import { createContext, Script } from 'node:vm'
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest'
import { findFreePort } from '../../../tools/free-port.ts'
import { begin, json, openRequest, responseTo, send } from '../../support/http-client.ts'
import { startProgram } from '../../support/program.ts'
import { RUNTIMES } from '../package/runtimes/install.ts'
import { APPS, BUILT, bundleForBrowser, install, type Place, untilServed } from './places.ts'

const CALLS = 25
const CALLER = { Authorization: 'Bearer caller' }

/** Cells of the table; what a place does not have stays empty. */
interface Row {
  readonly place: string
  readonly bundles: string
  readonly runs: string
  readonly granted: string
  readonly fields: string
  readonly slots: string
  readonly address: string
}

/** What every browser has of what the limiter may use; nothing of Node. */
const OF_BROWSERS =
  'crypto performance console TextEncoder TextDecoder btoa atob setTimeout clearTimeout setInterval clearInterval URL'.split(
    ' ',
  )

const rows: Row[] = []
/** Promises by host: a cell is empty if a host has no such thing. */
const promises: Record<string, Readonly<Record<string, string>>> = {}

/** Each row is told when it is whole, too: a run that is out of time never comes to its tables. */
function tellRow(place: string, cells: Readonly<Record<string, string>>): void {
  const known = Object.entries(cells).filter(([, cell]) => cell !== '')
  console.log(`${place}: ${known.map(([name, cell]) => `${name} ${cell}`).join(', ')}`)
}

function addRow(row: Row): void {
  const { place, ...cells } = row
  rows.push(row)
  tellRow(place, cells)
}

beforeAll(() => install(inject('packed')))
afterAll(() => {
  console.table(Object.fromEntries(rows.map(({ place, ...cells }) => [place, cells])))
  console.table(promises)
})

const hasFields = ({ ratelimit, 'ratelimit-policy': policy }: IncomingHttpHeaders, remaining: number) =>
  /;q=10;w=3600$/.test(`${policy}`) && new RegExp(`;r=${remaining};t=3\\d{3}$`).test(`${ratelimit}`)

describe.each(APPS)('$places.0.name', ({ places, bundler, build, start }) => {
  const seen = new Map<string, Partial<Row>>()
  let url: URL
  let stop: (() => Promise<unknown>) | undefined
  const note = (place: Place, cells: Partial<Row>) => seen.set(place.name, { ...seen.get(place.name), ...cells })

  beforeAll(async () => {
    await build()
    for (const place of places) note(place, { bundles: bundler })
    const port = await findFreePort()
    url = new URL(`http://127.0.0.1:${port}`)
    stop = await start(port, { url: inject('redisRestUrl'), token: inject('redisRestToken') })
    await untilServed(url)
    for (const place of places) note(place, { runs: 'yes' })
  })
  afterAll(async () => {
    for (const { name } of places) {
      addRow({
        place: name,
        bundles: 'no',
        runs: 'no',
        granted: '',
        fields: '',
        slots: '',
        address: '',
        ...seen.get(name),
      })
    }
    await stop?.()
  })

  test.each(places)('$name admits exactly 10 of 25, and reports the limits', async (place) => {
    const path = place.calls ?? '/'
    const answers = await Promise.all(Array.from({ length: CALLS }, () => send(url, { path, headers: CALLER })))
    const admitted = answers.filter(({ status }) => status === 200)
    const refused = answers.filter(({ status }) => status === 429)
    note(place, { granted: `${admitted.length} of ${CALLS}` })
    expect([admitted.length, refused.length]).toEqual([10, 15])
    if (place.fields === false) return

    const remaining = admitted.map(({ headers }) => Number(/;r=(\d)/.exec(`${headers.ratelimit}`)?.[1]))
    expect(remaining.toSorted()).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    for (const [index, { headers }] of admitted.entries()) expect(hasFields(headers, remaining[index] ?? -1)).toBe(true)
    for (const { headers } of refused) {
      expect(hasFields(headers, 0)).toBe(true)
      expect(headers['content-type']).toBe('application/problem+json')
      expect(headers['retry-after']).toMatch(/^3\d{3}$/)
    }
    expect(admitted.map((answer) => (json(answer) as { outcome: string }).outcome)).toEqual(Array(10).fill('admitted'))
    note(place, { fields: 'yes' })
  })

  test.each(places.filter(({ slots }) => slots !== null))('$name gives slots back', async (place) => {
    const slow = { path: '/slow', headers: CALLER }
    const first = await begin(url, slow)
    expect((await send(url, slow)).status).toBe(429)
    await send(url, { path: '/end' })
    // Fails unless the body is whole.
    await buffer(first.response)

    /** Begins one that is admitted, as soon as the slot is free. */
    const beginAgain = async () => {
      let client: ClientRequest | undefined
      await expect
        .poll(async () => {
          client = openRequest(url, slow).end()
          const response = await responseTo(client)
          response.on('error', () => {}).resume()
          return response.statusCode
        })
        .toBe(200)
      return client as ClientRequest | undefined
    }
    const second = await beginAgain()
    note(place, { slots: 'at the end' })
    if (place.slots !== 'end') {
      expect((await send(url, slow)).status).toBe(429)
      second?.destroy()
      await beginAgain()
      note(place, { slots: 'at the end, if the client goes' })
    }
    await send(url, { path: '/end' })
  })

  test.each(places.filter(({ prerenders }) => prerenders))('$name serves what is prerendered', async () => {
    const path = '/prerendered'
    const answers = await Promise.all([1, 2].map(() => send(url, { path })))
    expect(answers.map(({ status, body }) => [status, `${body}`])).toEqual(Array(2).fill([200, 'prerendered']))
  })

  test.each(places.filter(({ address }) => address))('$name knows addresses', async (place) => {
    const statuses: number[] = []
    for (const localAddress of ['127.0.0.1', '127.0.0.1', '127.0.0.2']) {
      statuses.push((await send(url, { path: '/address', localAddress })).status)
    }
    expect(statuses).toEqual([200, 429, 200])
    note(place, { address: 'yes' })
  })
})

test('a browser runs the limiter in memory', async () => {
  const script = new Script(await bundleForBrowser())
  const page = createContext(Object.fromEntries(OF_BROWSERS.map((name) => [name, Reflect.get(globalThis, name)])))
  script.runInContext(page)
  const { granted, slots } = (await page.used) as { granted: boolean[]; slots: boolean[] }
  expect([granted.filter(Boolean).length, granted.length]).toEqual([10, CALLS])
  expect(slots).toEqual([true, false, true])
  addRow({
    place: 'a browser (sluice)',
    bundles: 'esbuild',
    runs: 'yes',
    granted: `10 of ${CALLS}`,
    fields: '',
    slots: 'on release()',
    address: '',
  })
})

test.each([
  ['Node', 16],
  ['Bun', 2],
  ['Deno', 1],
])('every host on %s keeps every promise', async (runtime, hosts) => {
  const [command = '', ...args] = RUNTIMES[runtime] ?? []
  const child = spawn(command, [...args, 'hosts/main.js'], { cwd: BUILT, stdio: ['ignore', 'pipe', 'inherit'] })
  const closed = once(child, 'close')
  onTestFinished(() => void child.kill())
  let rowCount = 0
  const broken: string[] = []
  for await (const line of createInterface({ input: child.stdout })) {
    if (!line.startsWith('{')) continue
    rowCount++
    const { host, ...cells }: Record<string, string> = JSON.parse(line)
    promises[`${host}`] = cells
    tellRow(`${host}`, cells)
    for (const [promise, cell] of Object.entries(cells)) {
      if (cell !== 'yes' && cell !== '') broken.push(`${host}, ${promise}: ${cell}`)
    }
  }
  expect(await closed).toEqual([0, null])
  expect(broken).toEqual([])
  expect(rowCount).toBe(hosts)
})

test('a route of Next.js may change its limits while `next dev` runs', async () => {
  const folder = join(BUILT, 'hot')
  const port = await findFreePort()
  const url = new URL(`http://127.0.0.1:${port}`)
  const { end } = startProgram(process.execPath, [join(BUILT, '../node_modules/.bin/next'), 'dev', '-p', `${port}`], {
    cwd: folder,
    env: { ...process.env, NODE_ENV: 'development', NEXT_TELEMETRY_DISABLED: '1' },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  // Its server is a process of its own, which it ends.
  onTestFinished(() => end('SIGTERM').then(() => {}))
  await untilServed(url)
  const readPolicy = async () => (await send(url)).headers['ratelimit-policy']
  expect(await readPolicy()).toBe('"default-1m";q=3;w=60')
  const route = join(folder, 'app/route.js')
  await writeFile(route, `// A line more.\n${(await readFile(route, 'utf8')).replace('3/1m', '5/1h')}`)
  await expect.poll(readPolicy, { timeout: 60_000 }).toBe('"default-1h";q=5;w=3600')
})
