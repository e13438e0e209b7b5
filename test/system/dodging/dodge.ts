import type { Bundle } from '../../support/build-bundle.ts'
import { startDirectGateway } from '../../support/direct-gateway.ts'
import type { Drawing } from '../../support/judge-readings.ts'
import { RawConnection } from './connection.ts'
import { type Framework, startApi } from './frameworks.ts'
import { listPolicies, ROUTES, type RouteName } from './routes.ts'
import { drawSpelling } from './spellings.ts'

const CONNECTIONS = 32

export interface Bypass {
  readonly handler: RouteName
  /** The whole request, one character for each byte. */
  readonly bytes: string
}

export interface Findings {
  readonly spellings: number
  /** Requests that a handler of a limited route served. */
  readonly reached: number
  /** Requests that were answered 400, by workerd or by Sluice. */
  readonly refused: number
  /** Those served without a charge to the policy of the route. */
  readonly bypasses: readonly Bypass[]
}

/** Sends generated spellings through the gateway to one framework, and compares who served with what was charged. */
export async function dodge(
  framework: Framework,
  { bundle, ...options }: { readonly bundle: Bundle } & Drawing,
): Promise<Findings> {
  const api = await startApi(framework)
  const gateway = await startDirectGateway({
    bundle,
    bindings: { UPSTREAM_URL: api.url, POLICIES: listPolicies(framework) },
  })
  try {
    return await dodgeAt(gateway.url, options)
  } finally {
    await gateway.stop()
    await api.stop()
  }
}

/** The same to what has limits and routes already. */
export async function dodgeAt(url: URL, { seed, spellings }: Drawing): Promise<Findings> {
  const bypasses: Bypass[] = []
  let [next, reached, refused] = [0, 0, 0]
  const sendAll = async () => {
    const connection = new RawConnection(url)
    while (next < spellings) {
      const { method, bytes } = drawSpelling(seed, next++)
      const { status, headers } = await connection.call(bytes, method !== 'HEAD')
      if (status === 400) refused++
      const [handler] = headers.get('x-handler') ?? []
      if (handler === undefined) continue
      reached++
      const charged = (headers.get('ratelimit-policy') ?? []).join()
      if (!charged.includes(`"${handler}-`)) bypasses.push({ handler: handler as RouteName, bytes })
    }
    connection.end()
  }
  await checkRoutes(url)
  await Promise.all(Array.from({ length: CONNECTIONS }, sendAll))
  return { spellings, reached, refused, bypasses }
}

/** @throws Error unless each route, sent plainly, is served and charged: nothing else would show a bypass */
async function checkRoutes(gateway: URL): Promise<void> {
  for (const [name, route] of Object.entries(ROUTES)) {
    const [method = '', path = ''] = route.replace(':id', '7').split(' ')
    const { headers } = await fetch(new URL(path, gateway), { method })
    if (headers.get('X-Handler') !== name || !headers.get('RateLimit-Policy')?.includes(`"${name}-`)) {
      throw new Error(`${route} is not served as it should be, or not charged`)
    }
  }
}
