import type { JWK } from 'jose'
import { startUpstream } from './upstream.ts'

/** A site on 127.0.0.1 that publishes a key set. */
export interface KeySite {
  readonly url: string
  /** What it publishes from now on. */
  keys: readonly JWK[]
  /** How it is: `unavailable` breaks connections off, `silent` never answers. */
  mood: 'well' | 'unavailable' | 'silent' | 'broken'
  /** How often it was asked. */
  readonly requested: number
  stop(): Promise<void>
}

export async function startKeySite(keys: readonly JWK[]): Promise<KeySite> {
  let requested = 0
  const server = await startUpstream((request, response) => {
    requested++
    if (site.mood === 'unavailable') request.socket.destroy()
    else if (site.mood === 'broken') response.writeHead(503).end('{"keys":[]}')
    else if (site.mood === 'well') {
      response.writeHead(200, { 'Content-Type': 'application/jwk-set+json' }).end(JSON.stringify({ keys: site.keys }))
    }
  })
  const site: KeySite = {
    url: `${server.url}/keys`,
    keys,
    mood: 'well',
    get requested() {
      return requested
    },
    stop: () => server.stop(),
  }
  return site
}
