import { readRateLimit } from 'sluice/fetch'
import { end, untilEnded } from './options.js'

/** Answers a request of any path, as an app would. */
export function answer(request) {
  const { pathname } = new URL(request.url)
  if (pathname === '/end') return answerEnd()
  return pathname === '/slow' ? answerSlowly() : answerCall(request)
}

/** Answers with the decision, as the handler sees it. */
export function answerCall(request) {
  return Response.json(readRateLimit(request))
}

export function answerEnd() {
  end()
  return new Response('ended')
}

export function answerSlowly() {
  let isGone = false
  const body = new ReadableStream({
    async start(controller) {
      controller.enqueue(new TextEncoder().encode('begun'))
      await untilEnded(() => isGone)
      if (!isGone) controller.close()
    },
    cancel() {
      isGone = true
    },
  })
  return new Response(body, { headers: { 'Content-Type': 'text/plain' } })
}
