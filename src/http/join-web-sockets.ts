/**
 * At most about twice this may wait for a side that reads nothing: a message is sent if no more than this is ahead of
 * it, and the runtime takes messages of at most this size.
 */
const AHEAD_BYTES = 32 * 2 ** 20
/** The least that each side is assumed to receive: 2 Mbit/s. */
const RECEIVED_BYTES_PER_MS = (256 * 2 ** 10) / 1_000

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
 * Sends each message of one side to the other as it is, text or binary, and the end with its code and reason.
 *
 * This runtime's `send` queues without a bound, and nothing tells what was received. So each side is assumed to receive
 * 256 KiB/s, and if more than 32 MiB are then still ahead of a message, both sides are closed with 1013.
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
  let aheadBytes = 0
  let countedAt = now()
  from.addEventListener('message', ({ data }) => {
    if (to.readyState !== WebSocket.READY_STATE_OPEN) return
    const at = now()
    aheadBytes = Math.max(0, aheadBytes - (at - countedAt) * RECEIVED_BYTES_PER_MS)
    countedAt = at
    if (aheadBytes > AHEAD_BYTES) {
      for (const side of [from, to]) side.close(TRY_AGAIN_LATER, 'More was sent than is received')
      return
    }
    aheadBytes += typeof data === 'string' ? data.length : data.byteLength
    to.send(data)
  })
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
