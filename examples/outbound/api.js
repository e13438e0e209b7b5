/** An API that allows 20 calls a second and 45 in three, answers 429 above, and tells of that in each response. */
import { createServer } from 'node:http'

const LIMITS = [
  { name: 'burst', limit: 20, windowS: 1 },
  { name: 'sustained', limit: 45, windowS: 3 },
]

export const api = createServer((_request, response) => {
  const nowS = performance.now() / 1000
  const isRefused = standings(nowS).some(({ left }) => left === 0)
  if (!isRefused) admitted.push(nowS)
  const limits = standings(nowS)
  response.setHeader(
    'RateLimit-Policy',
    limits.map(({ name, limit, windowS }) => `"${name}";q=${limit};w=${windowS}`),
  )
  response.setHeader(
    'RateLimit',
    limits.map(({ name, left, resetS }) => `"${name}";r=${left};t=${resetS}`),
  )
  if (isRefused) {
    const full = limits.filter(({ left }) => left === 0)
    response.setHeader('Retry-After', Math.max(...full.map(({ resetS }) => resetS)))
  }
  response.writeHead(isRefused ? 429 : 200).end()
})

/** When calls were admitted, in seconds. */
const admitted = []

function standings(nowS) {
  return LIMITS.map(({ name, limit, windowS }) => {
    const recent = admitted.filter((atS) => atS > nowS - windowS)
    const resetS = Math.ceil((recent[0] ?? nowS) + windowS - nowS)
    return { name, limit, windowS, left: limit - recent.length, resetS }
  })
}

if (import.meta.filename === process.argv[1]) {
  api.listen(8080, '127.0.0.1', () => console.log('http://127.0.0.1:8080'))
}
