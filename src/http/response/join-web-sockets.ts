/** Passes messages between the WebSocket of a client and that of the upstream, in bounded memory. */

/** RFC 6455 §7.4.1 and the registry it founded. */
const GOING_AWAY = 1001
const NO_STATUS = 1005
const ABNORMAL = 1006
const INTERNAL_ERROR = 1011
const TRY_AGAIN_LATER = 1013
const BAD_GATEWAY = 1014

const encoder = new TextEncoder()

export interface JoinHooks {
  /** Called when the client's side has ended, perhaps more than once. */
  onEnd(): void
  /** Called with the bytes of each message that is forwarded, and the side that has sent it. */
  onMessage(bytes: number, from: WebSocket): void
}

/**
 * Forwards each message of one side to the other, text or binary, and the close with its code and reason. If too many
 * bytes wait for a side or in the isolate, both sides are closed with 1013.
 * @param client the gateway's end of the pair whose other end the client gets
 */
export function joinWebSockets(upstream: WebSocket, client: WebSocket, now: () => number, hooks: JoinHooks): void {
  for (const side of [upstream, client]) {
    // Blobs could only be read after later messages.
    side.binaryType = 'arraybuffer'
    side.accept()
  }
  connect(upstream, client, BAD_GATEWAY, now, hooks)
  connect(client, upstream, GOING_AWAY, now, hooks)
  client.addEventListener('close', hooks.onEnd)
  client.addEventListener('error', hooks.onEnd)
}

/** @param lost the code for `to` if `from` ends without one */
function connect(from: WebSocket, to: WebSocket, lost: number, now: () => number, hooks: JoinHooks): void {
  const backlog = new Backlog(now())
  from.addEventListener('message', ({ data }) => {
    if (to.readyState !== WebSocket.READY_STATE_OPEN) return
    const bytes = typeof data === 'string' ? encoder.encode(data).length : data.byteLength
    if (backlog.add(bytes, now())) {
      to.send(data)
      hooks.onMessage(bytes, from)
      return
    }
    for (const side of [from, to]) side.close(TRY_AGAIN_LATER, 'More was sent than is received')
  })
  for (const event of ['close', 'error'] as const) to.addEventListener(event, () => backlog.remove())
  from.addEventListener('close', ({ code, reason }) => {
    // Neither code may be sent: one means a close without a code, the other an end without a close.
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

/** A message is sent to a side if no more than this waits for it. The runtime takes messages of at most 32 MiB. */
const MAX_SIDE_BYTES = 16 * 2 ** 20
/** Limit of all sides together: an isolate has 128 MiB. */
const MAX_TOTAL_BYTES = 64 * 2 ** 20
/** Each side may have so many in any case, so that slow clients do not close the sockets of fast ones. */
const MIN_SIDE_BYTES = 32 * 2 ** 10
const MESSAGE_BYTES = 256
/** Each side is assumed to receive at least 2 Mbit/s. */
const RECEIVED_BYTES_PER_MS = (256 * 2 ** 10) / 1_000

/** All backlogs of this isolate, and their sum. */
const backlogs = new Set<Backlog>()
let totalBytes = 0

/** Estimates the bytes that wait for a side: the runtime queues without a bound and does not report what is received. */
class Backlog {
  #bytes = 0
  #countedAtMs: number
  #isFull = false

  /** @param nowMs milliseconds since the Unix epoch */
  constructor(nowMs: number) {
    this.#countedAtMs = nowMs
    backlogs.add(this)
  }

  /** @returns false if a message does not fit: no other may be sent, and waiting bytes count until `remove()` */
  add(contentBytes: number, nowMs: number): boolean {
    const bytes = contentBytes + MESSAGE_BYTES
    this.#count(nowMs)
    this.#isFull ||= this.#bytes > MAX_SIDE_BYTES || (isCrowded(bytes, nowMs) && this.#bytes + bytes > MIN_SIDE_BYTES)
    if (this.#isFull) return false
    this.#bytes += bytes
    totalBytes += bytes
    return true
  }

  remove(): void {
    totalBytes -= this.#bytes
    this.#bytes = 0
    backlogs.delete(this)
  }

  static countAll(nowMs: number): void {
    for (const backlog of backlogs) backlog.#count(nowMs)
  }

  #count(nowMs: number): void {
    // A side that was closed because it received less is not assumed to receive the rest.
    if (this.#isFull) return
    const received = Math.min(this.#bytes, Math.max(0, nowMs - this.#countedAtMs) * RECEIVED_BYTES_PER_MS)
    this.#countedAtMs = nowMs
    this.#bytes -= received
    totalBytes -= received
  }
}

function isCrowded(bytes: number, nowMs: number): boolean {
  if (totalBytes + bytes <= MAX_TOTAL_BYTES) return false
  Backlog.countAll(nowMs)
  return totalBytes + bytes > MAX_TOTAL_BYTES
}
