/** Measures a response on its way to the client, and settles the cost of its request when it has ended. */
import type { ResponseCost, SlotHold } from '../../core/model/verdict.ts'
import type { Exchange } from '../request/received-request.ts'
import { createPassage } from './create-passage.ts'
import type { AbortableRequest } from './exchange.ts'
import { createMeter, MAX_READ_ON_MS, type Meter } from './meter.ts'

export interface MeasureOptions {
  /** Bodies are read as the upstream has encoded them; else the runtime decodes what is read, and encodes it again. */
  readonly keepsEncoding: boolean
  readonly now: () => number
}

export type MeasureResponse = ReturnType<typeof createMeasureResponse>

/**
 * Makes a function that passes a response on as it comes, and settles what it has cost when it ends or breaks off: by what
 * was sent until then. It releases slots after that, so that no more is in flight than there are slots until all is
 * charged. If the client goes, the rest of a JSON body or a stream of events is still read if it tells the cost.
 */
export function createMeasureResponse({ keepsEncoding, now }: MeasureOptions) {
  return function measureResponse(
    response: Response,
    cost: ResponseCost,
    hold: SlotHold | undefined,
    { request, context }: Exchange<AbortableRequest>,
    startMs: number,
  ): Response {
    const { body, headers } = response
    const meter = createMeter(headers, cost.terms)
    const settle = async () => {
      try {
        await cost.settle(meter.end(now() - startMs))
      } finally {
        await hold?.release()
      }
    }
    // The body of a response to HEAD is never read.
    if (!body || request.method === 'HEAD') {
      context.waitUntil(settle())
      return response
    }
    const { readable, writable } = createPassage(headers, keepsEncoding)
    context.waitUntil(copyBody(body, writable, meter, request.signal).then(settle))
    return new Response(readable, response)
  }
}

/** Resolves when either side has ended, whatever happened. */
async function copyBody(
  body: ReadableStream<Uint8Array>,
  writable: WritableStream<Uint8Array>,
  meter: Meter,
  signal: AbortSignal,
): Promise<void> {
  const reader = body.getReader()
  const writer = writable.getWriter()
  let isGone = false
  let timer: ReturnType<typeof setTimeout> | undefined
  const cancel = () => void reader.cancel().catch(() => {})
  const leave = () => {
    if (isGone) return
    isGone = true
    writer.abort().catch(() => {})
    if (meter.isExpecting) timer = setTimeout(cancel, MAX_READ_ON_MS)
    else cancel()
  }
  writer.closed.catch(leave)
  signal.addEventListener('abort', leave)
  if (signal.aborted) leave()
  try {
    for (let chunk = await reader.read(); chunk.value && (!isGone || meter.isExpecting); chunk = await reader.read()) {
      meter.see(chunk.value)
      if (!isGone) await writer.write(chunk.value).catch(leave)
    }
    if (isGone) await reader.cancel()
    else await writer.close()
  } catch (error) {
    isGone = true
    await writer.abort(error).catch(() => {})
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', leave)
  }
}
