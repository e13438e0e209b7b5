/**
 * The API behind every gateway: a fixed answer. Of requests to /record/<name> it keeps the time of arrival; asked
 * `arrivals`, it answers and forgets them, as [name, ms of the machine's monotonic clock].
 */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { monotonicMs } from '../monotonic.ts'
import { serveParent } from './child.ts'

const BODY = Buffer.from('{"ok":true}')
const RECORD = '/record/'
let arrivals: [string, number][] = []

// As much as workerd lets in.
const server = createServer({ maxHeaderSize: 1 << 20 }, (request, response) => {
  const { url = '' } = request
  if (url.startsWith(RECORD)) arrivals.push([url.slice(RECORD.length), monotonicMs()])
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': BODY.length })
  response.end(BODY)
})
server.keepAliveTimeout = 0
server.listen(0, '127.0.0.1')
await once(server, 'listening')
serveParent(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, () => {
  const seen = arrivals
  arrivals = []
  return seen
})
