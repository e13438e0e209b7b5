import { expect, test } from 'vitest'
import { formField } from '../../src/identity/form.ts'

test('formField() gives up on a body of unknown length that is too long, and leaves it whole for the proxy', async () => {
  const body = new TextEncoder().encode(`caller=${'x'.repeat(9_000)}`)
  const headers = { 'Content-Type': 'application/x-www-form-urlencoded' }
  const stream = new ReadableStream({
    start(controller) {
      for (let at = 0; at < body.length; at += 1_000) controller.enqueue(body.slice(at, at + 1_000))
      controller.close()
    },
  })
  const init = { method: 'POST', headers, body: stream, duplex: 'half' }
  const request = new Request('https://gateway.example/', init)
  expect(await formField(request, 'caller')).toBeUndefined()
  expect(new Uint8Array(await request.arrayBuffer())).toEqual(body)
})
