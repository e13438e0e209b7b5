/** A call whose cost is read from its response, and that its caller no longer wants. */
import { expect, onTestFinished, test } from 'vitest'
import { outbound } from '../../src/outbound.ts'
import { startUpstream } from '../support/upstream.ts'

test('outbound() with actualCost: cancel() reaches the server', async () => {
  let isClosed = false
  const server = await startUpstream((_, response) => {
    response.write('begun')
    response.on('close', () => {
      isClosed = true
    })
  })
  onTestFinished(() => server.stop())
  const urls: string[] = []
  const actualCost = async (response: Response) => {
    urls.push(response.url)
    return (await response.text()).length
  }
  const call = outbound(fetch, { limits: '100/1m', actualCost })
  const { body, url } = await call(`${server.url}/stream`)
  await body?.cancel()
  await expect.poll(() => isClosed).toBe(true)
  expect(urls).toEqual([url])
})
