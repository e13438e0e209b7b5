/** What every place is to hold: 10 calls an hour for each token, one slot, and one request an hour for each address. */
export const options = {
  policies: [
    { name: 'calls', limits: '10/1h', match: 'GET /' },
    { name: 'slots', limits: '1', algorithm: 'concurrency', slot_ttl: '1h', match: 'GET /slow' },
    { name: 'address', limits: '1/1h', by: 'ip', match: ['GET /address', 'GET /prerendered'] },
  ],
  log() {},
}

/** All copies of this module in a process: bundlers make one for each route. */
globalThis.slow ??= { isEnded: false }

/** Waits until somebody asks for `/end`. Each request has timers of its own: on Workers, none can wake another. */
export async function untilEnded(isGone = () => false) {
  globalThis.slow.isEnded = false
  while (!globalThis.slow.isEnded && !isGone()) await new Promise((resolve) => setTimeout(resolve, 5))
}

export function end() {
  globalThis.slow.isEnded = true
}
