import { expect, test } from 'vitest'
import { OptionError } from '../../../src/index.ts'
import { objectStore } from '../../../src/objects.ts'
import { buildBundle, removeBundle } from '../../support/build-bundle.ts'
import { startDirectGateway } from '../../support/direct-gateway.ts'
import { share } from '../../support/share.ts'

const bundle = share(() => buildBundle({ source: 'test/e2e/object-store/worker.ts' }), removeBundle)
const worker = share(() => startDirectGateway({ bundle, bindings: {}, objects: 'disk' }))

const call = async (path: string, token = 'a') => {
  const response = await fetch(new URL(path, worker.url), { headers: { Authorization: `Bearer ${token}` } })
  return { status: response.status, headers: response.headers, text: await response.text() }
}

test('objectStore() decides the policies of a middleware together, in objects', async () => {
  const statuses = async (...tokens: readonly string[]) => {
    const found: number[] = []
    for (const token of tokens) found.push((await call('/', token)).status)
    return found
  }
  expect(await statuses('a', 'a', 'a', 'a')).toEqual([200, 200, 429, 429])
  // What was refused has charged nothing to all.
  expect(await statuses('b', 'b', 'c', 'd')).toEqual([200, 200, 200, 429])
  const { headers } = await call('/', 'e')
  expect(headers.get('RateLimit')).toContain('"all-1h";r=0')
  expect(headers.get('Sluice-Degraded')).toBeNull()
})

test('objectStore() counts for a limiter of the library', async () => {
  const granted: boolean[] = []
  for (let i = 0; i < 4; i++) granted.push(JSON.parse((await call('/library?user=x')).text).granted)
  expect(granted).toEqual([true, true, true, false])
})

test.each([undefined, {}, 'LIMITS'])('objectStore() refuses %j, which is no binding', (namespace) => {
  expect(() => objectStore(namespace as never)).toThrow(OptionError)
  expect(() => objectStore(namespace as never)).toThrow(
    'objectStore: expected a binding of Durable Objects, such as env.LIMITS',
  )
})

test('objectStore() refuses a deadline that is none', () => {
  const namespace = { idFromName: () => '', get: () => ({ fetch: () => Promise.reject(new Error('never')) }) }
  expect(() => objectStore(namespace, { timeoutMs: 0 })).toThrow(
    'objectStore.timeoutMs: expected an integer from 1 to 60000',
  )
})
