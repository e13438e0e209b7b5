import { end, untilEnded } from '../options.js'

/** Answers a request of node:http, whatever framework it came through. */
export async function answerOnNode(req, res) {
  const { pathname } = new URL(req.url, 'http://localhost')
  if (pathname === '/end') {
    end()
    res.end('ended')
  } else if (pathname === '/slow') {
    res.write('begun')
    await untilEnded(() => res.destroyed)
    res.end()
  } else res.setHeader('Content-Type', 'application/json').end(JSON.stringify(req.rateLimit))
}

const { PORT } = process.env
export const port = Number(PORT)
