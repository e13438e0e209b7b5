/** What the app of every host answers, by path. */
import { setTimeout as delay } from 'node:timers/promises'

let onBegun

/** How a test learns that a handler runs. */
export const handlers = {
  begun: () =>
    new Promise((resolve) => {
      onBegun = resolve
    }),
}

async function untilGone(isGone) {
  onBegun?.()
  while (!isGone()) await delay(1)
  await delay(5)
}

export async function* chunks() {
  for (const chunk of ['one', 'two', 'three']) {
    yield chunk
    await delay(1)
  }
}

/** Ends only when its reader goes. */
async function* endlessChunks() {
  try {
    for (;;) {
      yield 'one'
      onBegun?.()
      await delay(1)
    }
  } finally {
    onBegun = undefined
  }
}

/** Does the same as `answerOnNode`, but handlers of URLs that end in `?callback` return at once and answer in callbacks. */
export function answerInVariant(req, res, means) {
  const answering = answerOnNode(req, res, means)
  if (!(req.originalUrl ?? req.url).endsWith('?callback')) return answering
  answering.catch(() => {})
  return undefined
}

/**
 * On a server of Node.
 * @param send answers 200 with a text, as the framework does
 * @param stream answers 200 with chunks, as the framework does
 * @param leave tells the framework that the handler answers by itself
 */
async function answerOnNode(req, res, { send, stream, leave = () => {} }) {
  const path = (req.originalUrl ?? req.url).split('?')[0]
  if (path === '/throw') throw new Error('thrown')
  if (path === '/stream') return stream(chunks())
  if (path === '/endless') return stream(endlessChunks())
  if (path.startsWith('/gone')) {
    await untilGone(() => res.destroyed || res.stream?.destroyed)
    if (path === '/gone-throw') throw new Error('thrown')
    if (path === '/gone-return') {
      leave()
      return
    }
  } else if (path.startsWith('/destroy')) {
    leave()
    if (path === '/destroy-response') (res.stream ?? res).destroy()
    else if (path === '/destroy-request') req.destroy()
    else (res.stream ? res.stream.session : req.socket).destroy()
    return
  }
  return send('hello')
}

/** In a handler of `fetch`. */
export async function answerOnWeb(request) {
  const { pathname } = new URL(request.url)
  if (pathname === '/throw') throw new Error('thrown')
  if (pathname.startsWith('/gone')) {
    await untilGone(() => request.signal.aborted)
    if (pathname === '/gone-throw') throw new Error('thrown')
  }
  if (pathname === '/stream') {
    const encoder = new TextEncoder()
    const texts = chunks()
    return new Response(
      new ReadableStream({
        async pull(controller) {
          const { done, value } = await texts.next()
          if (done) controller.close()
          else controller.enqueue(encoder.encode(value))
        },
      }),
    )
  }
  if (pathname === '/used') {
    const response = new Response('used')
    await response.text()
    return response
  }
  if (pathname === '/fetch') return fetch('data:text/plain,fetched')
  return new Response('hello')
}
