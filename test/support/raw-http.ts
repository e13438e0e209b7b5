import { once } from 'node:events'
import { connect } from 'node:net'

/** Sooner than a test's own timeout, which would not say what had been answered by then. */
const TIME_LIMIT_MS = 60_000

/** A request that asks for the end of the connection. */
export const LAST = 'GET /last HTTP/1.1\r\nHost: gateway.example\r\nConnection: close\r\n\r\n'

/**
 * Sends bytes as they are, and everything that comes back until the other side closes the connection.
 * @param bytes one character for each
 */
export async function exchange({ hostname, port }: URL, bytes: string): Promise<string> {
  const socket = connect(Number(port), hostname)
  let answered = ''
  socket.setEncoding('latin1').on('data', (text) => {
    answered += text
  })
  // A server that has refused a request may reset what still comes of it.
  socket.on('error', () => {})
  socket.setTimeout(TIME_LIMIT_MS, () => socket.destroy(new Error('the connection stays open')))
  socket.write(Buffer.from(bytes, 'latin1'))
  await once(socket, 'close')
  return answered
}

/** The status of each response, in order. */
export function readStatuses(answered: string): readonly number[] {
  return [...answered.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status))
}
