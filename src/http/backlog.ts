/** A message is sent to a side if no more than this waits for it. The runtime takes messages of at most 32 MiB. */
const MAX_SIDE_BYTES = 16 * 2 ** 20
/** May wait for all sides together: an isolate has 128 MiB. */
const MAX_TOTAL_BYTES = 64 * 2 ** 20
/**
 * May wait for each side all the same, so that those who read nothing do not close the sockets of those who read
 * everything.
 */
const MIN_SIDE_BYTES = 32 * 2 ** 10
/** What the runtime keeps of a message beside its content, about. */
const MESSAGE_BYTES = 256
/** The least that each side is assumed to receive: 2 Mbit/s. */
const RECEIVED_BYTES_PER_MS = (256 * 2 ** 10) / 1_000

/** All of this isolate, and what waits in them. */
const backlogs = new Set<Backlog>()
let totalBytes = 0

/**
 * What waits for one side of a WebSocket to receive it. The runtime queues without a bound, and nothing tells what was
 * received, so a side is assumed to receive 256 KiB/s.
 */
export class Backlog {
  #bytes = 0
  #countedAtMs: number
  #isFull = false

  /** @param nowMs milliseconds since the Unix epoch */
  constructor(nowMs: number) {
    this.#countedAtMs = nowMs
    backlogs.add(this)
  }

  /** @returns false if there is no room for a message: no other may be sent, and what waits counts until it is removed */
  add(contentBytes: number, nowMs: number): boolean {
    const bytes = contentBytes + MESSAGE_BYTES
    this.#count(nowMs)
    this.#isFull ||= this.#bytes > MAX_SIDE_BYTES || (isCrowded(bytes, nowMs) && this.#bytes + bytes > MIN_SIDE_BYTES)
    if (this.#isFull) return false
    this.#bytes += bytes
    totalBytes += bytes
    return true
  }

  /** The side has ended, and nothing waits for it any more. */
  remove(): void {
    totalBytes -= this.#bytes
    this.#bytes = 0
    backlogs.delete(this)
  }

  static countAll(nowMs: number): void {
    for (const backlog of backlogs) backlog.#count(nowMs)
  }

  #count(nowMs: number): void {
    // A side that has been closed because it received less is not assumed to receive the rest.
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
