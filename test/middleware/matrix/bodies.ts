/** Counting by what a body says, which the app then reads itself. */
import { expect, test } from 'vitest'
import type { Adapter, Handler, Sent } from './adapter.ts'
import { start } from './adapter.ts'

const echo: Handler = async (request) => new Response(await request.text())
const FORM = { 'Content-Type': 'application/x-www-form-urlencoded' }
const form = (body: string, more: Partial<Sent> = {}): Sent => ({ method: 'POST', body, headers: FORM, ...more })

export function describeBodies(adapter: Adapter): void {
  test('counts by a field of a form, which the app reads after it', async () => {
    const { send, sendInTurn } = await start(adapter, { limits: '1/1h', by: 'form:user', anonymous: 'ip' }, echo)
    for (const hasUnknownLength of [false, true]) {
      const body = `user=ada${Number(hasUnknownLength)}&n=${'x'.repeat(7_000)}`
      expect(await (await send(form(body, { hasUnknownLength }))).text()).toBe(body)
    }
    const requests = ['user=ada0', 'user=eve', 'user=eve&n=1'].map((body) => form(body))
    expect(await sendInTurn(requests)).toEqual([429, 200, 429])
    // Beyond 8 KiB it is not read, and its caller is counted by address.
    const long = `user=ada&n=${'x'.repeat(20_000)}`
    expect(await (await send(form(long))).text()).toBe(long)
    expect(await sendInTurn([form(`user=bob&n=${'x'.repeat(20_000)}`)])).toEqual([429])
  })

  test.each([false, true])(
    'counts by JSON, and leaves it to the app: of unknown length = %s',
    async (hasUnknownLength) => {
      const { send, sendInTurn } = await start(adapter, { limits: '1/1h', by: 'json:/user' }, echo)
      const sent = (user: string) => ({
        method: 'POST',
        body: JSON.stringify({ user, more: 'x'.repeat(5_000) }),
        headers: { 'Content-Type': 'application/json' },
        hasUnknownLength,
      })
      const first = await send(sent('ada'))
      expect([first.status, first.headers.get('RateLimit')]).toEqual([200, '"default-1h";r=0;t=3600'])
      expect(await first.text()).toBe(sent('ada').body)
      expect(await sendInTurn([sent('ada'), sent('bob'), {}])).toEqual([429, 200, 401])
    },
  )

  test('stands twice before a form, and each adds its headers', async () => {
    const layers = ['2/1h', '1/1h'].map((limits) => ({
      limits,
      name: limits === '2/1h' ? 'two' : 'one',
      by: 'form:user',
    }))
    const { send, sendInTurn } = await start(adapter, layers, echo)
    const first = await send(form('user=a'))
    expect(await first.text()).toBe('user=a')
    expect(first.headers.get('RateLimit')).toBe('"one-1h";r=0;t=3600, "two-1h";r=1;t=3600')
    expect(await sendInTurn([form('user=a')])).toEqual([429])
  })
}
