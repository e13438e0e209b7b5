import { Buffer } from 'node:buffer'
import { Backlog } from './backlog.ts'

/** RFC 6455 §7.4.1 and the registry it founded. */
const GOING_AWAY = 1001
const NO_STATUS = 1005
const ABNORMAL = 1006
const INTERNAL_ERROR = 1011
const TRY_AGAIN_LATER = 1013
const BAD_GATEWAY = 1014

export interface JoinedSides {
  readonly upstream: WebSocket
  /** The gateway's end of the pair whose other end the client gets. */
  readonly client: WebSocket
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number
  /** Called when the client's side has ended, perhaps more than once; what was sent to it is kept until then. */
  readonly onEnd: () => void
}

/**
 * Sends each message of one side to the other as it is, text or binary, and the end with its code and reason. If too
 * much is ahead of a message, for its side or in the isolate, both sides are closed with 1013.
 */
export function joinWebSockets({ upstream, client, now, onEnd }: JoinedSides): void {
  for (const side of [upstream, client]) {
    // Blobs could only be read after messages that come later.
    side.binaryType = 'arraybuffer'
    side.accept()
  }
  connect(upstream, client, BAD_GATEWAY, now)
  connect(client, upstream, GOING_AWAY, now)
  client.addEventListener('close', onEnd)
  client.addEventListener('error', onEnd)
}

/** @param lost the code for `to` if `from` breaks off without one */
function connect(from: WebSocket, to: WebSocket, lost: number, now: () => number): void {
  const backlog = new Backlog(now())
  from.addEventListener('message', ({ data }) => {
    if (to.readyState !== WebSocket.READY_STATE_OPEN) return
    if (backlog.add(typeof data === 'string' ? Buffer.byteLength(data) : data.byteLength, now())) {
      to.send(data)
      return
    }
    for (const side of [from, to]) side.close(TRY_AGAIN_LATER, 'More was sent than is received')
  })
  for (const event of ['close', 'error'] as const) to.addEventListener(event, () => backlog.remove())
  from.addEventListener('close', ({ code, reason }) => {
    // Neither may be sent: one stands for a close without a code, the other for an end without a close.
    if (code === NO_STATUS) to.close()
    else if (code === ABNORMAL) to.close(lost)
    else close(to, code, reason)
  })
  from.addEventListener('error', () => to.close(INTERNAL_ERROR))
}

function close(side: WebSocket, code: number, reason: string): void {
  try {
    side.close(code, reason)
  } catch {
    // The runtime refuses to send codes that are not in the registry.
    side.close(INTERNAL_ERROR)
  }
}
