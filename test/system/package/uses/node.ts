import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { sluice } from 'sluice/node'

/** Statuses of two requests from one address. */
export async function use(): Promise<readonly unknown[]> {
  const limit = sluice({ limits: '1/1m', by: 'ip', skip: (request) => request.method === 'PUT', log: () => {} })
  const server = createServer((request, response) => limit(request, response, () => response.end('hello')))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return [(await fetch(url)).status, (await fetch(url)).status]
}
