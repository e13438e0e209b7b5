/** A stream ends after so many events, so that none stays open for ever; browsers ask for another one by themselves. */
const MAX_EVENTS = 150

/**
 * Server-sent events (WHATWG HTML §9.2): one at once, and one every `everyMs` milliseconds.
 * @param read makes the data of the next one; if it fails, its name is `problem`
 */
export function eventStream(read: () => Promise<{ readonly isProblem: boolean; data: unknown }>, everyMs: number) {
  const encoder = new TextEncoder()
  let sent = 0
  let timer: ReturnType<typeof setTimeout> | undefined
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      if (sent > 0) {
        await new Promise<void>((resolve) => {
          timer = setTimeout(resolve, everyMs)
        })
      }
      const { isProblem, data } = await read()
      controller.enqueue(
        encoder.encode(`event: ${isProblem ? 'problem' : 'message'}\ndata: ${JSON.stringify(data)}\n\n`),
      )
      sent++
      if (sent === MAX_EVENTS) controller.close()
    },
    cancel() {
      clearTimeout(timer)
    },
  })
}
