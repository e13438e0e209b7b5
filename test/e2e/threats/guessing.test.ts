/** A caller who tries passwords, tokens or numbers, where what fails is counted. */
import { connect } from 'node:net'
import { expect, inject, test } from 'vitest'
import { startDirectGateway } from '../../support/direct-gateway.ts'
import { openRequest, send } from '../../support/http-client.ts'
import { share } from '../../support/share.ts'
import { startSteeredUpstream } from '../../support/steered-upstream.ts'

const LIMIT = 3
const upstream = share(startSteeredUpstream)
const gateway = share(() => {
  const POLICIES = [{ name: 'guesses', limits: `${LIMIT}/1h`, by: 'ip', counts: 'failures' }]
  const bindings = { UPSTREAM_URL: upstream.url, RATE_LIMITS: 'off', POLICIES }
  return startDirectGateway({ bundle: inject('bundle'), bindings })
})

let addresses = 0
const newAddress = () => ({ 'CF-Connecting-IP': `203.0.113.${addresses++}` })

/** As its address is known to by now; the upstream is not asked. */
async function expectRefused(headers: Record<string, string>): Promise<void> {
  await expect
    .poll(async () => {
      const before = upstream.requests
      const answered = send(gateway.url, { path: '/login', headers })
      const arrived = upstream.next()
      const arrival = await Promise.race([arrived, answered])
      if ('response' in arrival) arrival.response.end()
      else upstream.reset()
      return [(await answered).status, upstream.requests - before]
    })
    .toEqual([429, 0])
}

test.each([
  ['a GET', { method: 'GET' }, undefined],
  ['a POST, as soon as the guess is sent', { method: 'POST' }, 'password=x'],
])('a caller gets no more guesses by breaking off each: %s', async (_, sent, body) => {
  const headers = newAddress()
  for (let i = 0; i < LIMIT; i++) {
    const client = openRequest(gateway.url, { ...sent, path: '/login', headers })
    const gone = new Promise((resolve) => client.on('error', resolve))
    client.end(body)
    const { request, response } = await upstream.next()
    for await (const _chunk of request);
    // Reset: a connection that is merely closed might still be read from.
    client.socket?.resetAndDestroy()
    await gone
    // The gateway has seen it by the time that it has answered another.
    const other = send(gateway.url, { headers: newAddress() })
    ;(await upstream.next()).response.end()
    await other
    expect(response.destroyed).toBe(false)
    response.writeHead(401).end()
  }
  await expectRefused(headers)
})

test('a caller gets no more guesses by sending many down one connection at once', async () => {
  const headers = newAddress()
  const socket = connect(Number(gateway.url.port), gateway.url.hostname)
  const guess = `GET /login HTTP/1.1\r\nHost: g\r\nCF-Connecting-IP: ${headers['CF-Connecting-IP']}\r\n\r\n`
  socket.write(guess.repeat(LIMIT))
  for (let i = 0; i < LIMIT; i++) (await upstream.next()).response.writeHead(403).end()
  await expectRefused(headers)
  socket.destroy()
})
