/** Tests until when a request holds its slots. */
import { expect, test } from 'vitest'
import type { Adapter, Handler, Routes } from './adapter.ts'
import { start, X } from './adapter.ts'

export function describeSlots(adapter: Adapter): void {
  const policies = [{ name: 'slots', limits: '1', algorithm: 'concurrency', slot_ttl: '1h' }] as const

  async function startWith(routes: Routes) {
    const { send, sendInTurn } = await start(adapter, { policies }, { 'GET /probe': () => new Response(), ...routes })
    const isHeld = async () => (await sendInTurn([{ path: '/probe', ...X }]))[0] === 429
    return { send, isHeld }
  }

  /** Streams a body that begins at once, and ends when the test says so. */
  function stream() {
    let end = () => {}
    const answer: Handler = () =>
      new Response(
        new ReadableStream({
          start(controller) {
            controller.enqueue(new TextEncoder().encode('begun'))
            end = () => controller.close()
          },
        }),
      ) as Response
    return { answer, end: () => end() }
  }

  test('holds a slot until the body has ended', async () => {
    const { answer, end } = stream()
    const { send, isHeld } = await startWith({ 'GET /stream': answer })
    const reader = (await send({ path: '/stream', ...X })).body?.getReader()
    expect(new TextDecoder().decode((await reader?.read())?.value)).toBe('begun')
    expect(await isHeld()).toBe(true)
    end()
    expect((await reader?.read())?.done).toBe(true)
    await expect.poll(isHeld).toBe(false)
  })

  test.each(['that has begun', 'that is being sent'])(
    'frees a slot when the client breaks off a body %s',
    async (how) => {
      const pour: Handler = () =>
        new Response(
          new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(65_536)) }),
        ) as Response
      const { send, isHeld } = await startWith({ 'GET /stream': how === 'that has begun' ? stream().answer : pour })
      const response = await send({ path: '/stream', ...X })
      expect(await isHeld()).toBe(true)
      await response.body?.cancel()
      await expect.poll(isHeld).toBe(false)
    },
  )

  test.each<[string, Handler | undefined, string?]>([
    ['has no body', () => new Response(null, { status: 204 })],
    ['is short', () => new Response('short')],
    ['answers HEAD', () => new Response('long'), 'HEAD'],
    ['is an error', () => Promise.reject(new Error('of the handler'))],
    ['is none: what is no Error was thrown', () => Promise.reject('of the handler')],
    ['is 404', undefined],
  ])('frees a slot at once after a response that %s', async (_, handler, method = 'GET') => {
    const { send, isHeld } = await startWith(handler ? { '*': handler } : {})
    await (await send({ path: '/end', method, ...X })).text()
    await expect.poll(isHeld).toBe(false)
  })
}
