import { Buffer } from 'node:buffer'
import type { IncomingMessage } from 'node:http'

const PEEKED = new WeakMap<IncomingMessage, Promise<Buffer>>()

/** Whether what was read of a body has been put back. */
export function wasPeeked(request: IncomingMessage): boolean {
  return PEEKED.has(request)
}

/**
 * The first bytes of a body, which stay in it for whoever reads it next; fewer if there are no more, or the client has gone.
 * @param bytes the same for all who ask about a request; a few more may come
 */
export function peek(request: IncomingMessage, bytes: number): Promise<Buffer> {
  const peeked = PEEKED.get(request) ?? read(request, bytes)
  PEEKED.set(request, peeked)
  return peeked
}

function read(request: IncomingMessage, bytes: number): Promise<Buffer> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = []
    let length = 0
    const end = () => {
      for (const event of ['readable', 'end', 'close', 'error'])
        request.off(event, event === 'readable' ? onReadable : end)
      const body = Buffer.concat(chunks)
      // In the same turn as the last chunk was read, so that the stream does not end before it is read again.
      if (length > 0 && !request.destroyed) request.unshift(body)
      resolve(body)
    }
    const onReadable = () => {
      for (let chunk = request.read(); chunk !== null; chunk = request.read()) {
        chunks.push(chunk)
        length += chunk.length
        if (length >= bytes) break
      }
      if (length >= bytes || request.complete) end()
    }
    for (const event of ['end', 'close', 'error']) request.on(event, end)
    request.on('readable', onReadable)
  })
}
